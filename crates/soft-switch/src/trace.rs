//! What a traced program tells of a packet: states of the parser, headers, tables with their keys and actions, statements with the
//! values that they write, `log_msg`, and where the packet goes. Only programs that were loaded to be traced
//! ([`crate::Program::traced`]) have the code for it; others run as if it did not exist. They are interpreted, which is much slower.

use std::fmt::Write as _;

use crate::exec::core::{Core, Entry, Stop};
use crate::image::Image;
use crate::load::layout::Layout;
use crate::op::R;
use crate::table::NO_ACTION;

/// Lines that are kept until somebody takes them.
const MOST_LINES: usize = 100_000;

/// A text for a place in the code, in parts. Between two of them stands a value: its first slot and its width in bits.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub parts: Vec<String>,
    pub values: Vec<(R, u32)>,
}

/// A header and its fields: name, first slot, width in bits.
#[derive(Clone, Debug)]
struct HeaderNames {
    name: String,
    fields: Vec<(String, R, u32)>,
}

/// The names that a traced program's image keeps.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub notes: Vec<Note>,
    headers: Vec<HeaderNames>,
}

impl Names {
    pub(crate) fn new(notes: Vec<Note>, layout: &Layout) -> Self {
        let headers = layout.headers.iter().enumerate().map(|(h, header)| {
            let fields = layout.header_type(h).fields.iter().filter(|f| !f.varbit);
            let field =
                |f: &crate::load::layout::FieldDef| (f.name.clone(), (header.base + f.offset) as R, f.width);
            HeaderNames { name: header.name.clone(), fields: fields.map(field).collect() }
        });
        Self { notes, headers: headers.collect() }
    }
}

/// A value of `width` bits in hexadecimal digits, by its words from the lowest on.
fn hex(width: u32, word: impl Fn(usize) -> u64) -> String {
    let words = (width as usize).div_ceil(64).max(1);
    let mut text = format!("{:#x}", word(words - 1));
    for at in (0..words - 1).rev() {
        if text == "0x0" {
            text = format!("{:#x}", word(at));
        } else {
            let _ = write!(text, "{:016x}", word(at));
        }
    }
    text
}

impl Core {
    /// The value at a slot and those behind it.
    fn shown(&self, first: R, width: u32) -> String {
        hex(width, |word| self.slots[(first as usize + word) & 0xffff])
    }

    /// Adds a line to the packet's trace.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&mut self, line: String) {
        if self.trace.len() < MOST_LINES {
            self.trace.push(line);
        }
    }

    /// Says what a place in the code has to say.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&mut self, image: &Image, site: u32) {
        let Some(note) = image.names.as_ref().and_then(|names| names.notes.get(site as usize)) else {
            return;
        };
        let mut text = String::new();
        let mut values = note.values.iter();
        for (at, part) in note.parts.iter().enumerate() {
            if at > 0 {
                text += &values.next().map_or("{}".into(), |(r, width)| self.shown(*r, *width));
            }
            text += part;
        }
        self.tell(text);
    }

    /// Looks a table up as [`Core::apply`] does, and says so.
    #[cold]
    #[inline(never)]
    pub(crate) fn apply_and_tell(&mut self, image: &Image, t: usize) -> (u32, u32, u32) {
        let (def, info) = (&image.tables[t], &image.info.tables[t]);
        let hit = self.tables[t].lookup.find(&def.key, &self.slots) != 0;
        let keys = info.keys.iter().zip(&def.key.fields).map(|(key, (first, _))| {
            format!("{}={}", key.name, self.shown(def.key.parts[*first].slot, key.width))
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        let (action, next, at) = self.apply(image, t);
        let number = image.actions.iter().position(|a| action != NO_ACTION && a.start == action);
        let does = number.map_or("nothing".to_owned(), |number| {
            let (plan, info) = (&image.actions[number], &image.info.actions[number]);
            let words = self.arena.words.get(at as usize..).unwrap_or_default();
            let argument = |((word, width), param): (&(usize, u32), &crate::info::ParamInfo)| {
                let at = |n: usize| words.get(word + n).copied().unwrap_or(0);
                format!("{}={}", param.name, hex(*width, at))
            };
            let arguments: Vec<String> = plan.params.iter().zip(&info.params).map(argument).collect();
            format!("{}({})", info.name, arguments.join(", "))
        });
        let what = if hit { "hit" } else { "miss" };
        self.tell(format!(
            "  table {}: {keys}{}{what}, {does}",
            info.name,
            if keys.is_empty() { "" } else { ": " }
        ));
        (action, next, at)
    }

    /// Runs code as [`Core::run`] does, and says how it begins and ends.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_and_tell(&mut self, image: &Image, entry: Entry, data: &[u8]) -> Result<(), Stop> {
        let std = &image.standard;
        let slot = |core: &Core, r: R| core.slots[r as usize];
        match entry {
            Entry::Parser => {
                let (port, kind) = (slot(self, std.ingress_port), slot(self, std.instance_type));
                let kinds =
                    ["", ", a clone", ", a clone", "", ", recirculated", ", a replica", ", resubmitted"];
                let kind = kinds.get(kind as usize).copied().unwrap_or_default();
                self.tell(format!("packet of {} bytes at port {port}{kind}", data.len()));
            }
            Entry::Ingress => self.tell(" ingress".into()),
            Entry::Egress => self.tell(format!(" egress to port {}", slot(self, std.egress_port))),
            Entry::Verify | Entry::Update | Entry::Deparse => {}
        }
        let done = self.interpret(image, image.entry(entry), data);
        if matches!(entry, Entry::Ingress | Entry::Egress)
            && let Some((session, _)) = self.clone
        {
            self.tell(format!("  a clone goes to session {session}"));
        }
        match entry {
            Entry::Parser => {
                if let Err(Stop::Error(code)) = done {
                    let error = image.info.errors.iter().find(|(_, number)| u64::from(*number) == code);
                    self.tell(format!("  parser error {}", error.map_or("?", |(name, _)| name)));
                }
                self.tell_headers(image);
            }
            Entry::Ingress => {
                let group = std.mcast_grp.map_or(0, |r| slot(self, r));
                let spec = slot(self, std.egress_spec);
                self.tell(match (self.condemned, self.resubmit != 0, group, spec) {
                    (true, ..) => "  dropped: an assertion does not hold".into(),
                    (_, true, ..) => "  resubmitted".into(),
                    (_, _, 1.., _) => format!("  to multicast group {group}"),
                    _ if spec == self.drop_port => "  dropped".into(),
                    _ => format!("  to port {spec}"),
                });
            }
            Entry::Egress => {
                let dropped = slot(self, std.egress_spec) == self.drop_port;
                self.tell(match (self.condemned, dropped, self.recirculate != 0) {
                    (true, ..) => "  dropped: an assertion does not hold".into(),
                    (_, true, _) => "  dropped".into(),
                    (_, _, true) => "  recirculated".into(),
                    _ => format!("  leaves by port {}", slot(self, std.egress_port)),
                });
            }
            Entry::Verify if self.checksum_error => self.tell("  a checksum does not fit".into()),
            Entry::Verify | Entry::Update | Entry::Deparse => {}
        }
        done
    }

    fn tell_headers(&mut self, image: &Image) {
        let Some(names) = &image.names else { return };
        for (h, header) in names.headers.iter().enumerate() {
            if image.headers[h].metadata || !self.is_valid(image, h) {
                continue;
            }
            let fields =
                header.fields.iter().map(|(name, r, width)| format!("{name}={}", self.shown(*r, *width)));
            let fields: Vec<String> = fields.collect();
            self.tell(format!("  header {}: {}", header.name, fields.join(" ")));
        }
    }
}
