//! `zsr produce`.

use super::input::{Input, Records};
use super::screen::Screen;
use super::{PATIENCE, Stop, cancelled_by_signals, exit, failed, find};
use crate::closed::no_input;
use crate::live_args::ProduceArgs;
use std::fs::File;
use zsr::{FlowProducer, Held, KeyRoute, Options, ProgramError, Session, check_size, schema_of};
use zsr_api::controller as proto;
use zsr_records::{
    Content, FileFormat, KeyReader, KeyRef, Routing, Schema, parse_key, parse_routing,
    rows::{QUOTES_HELP, Style},
};
use zsr_ring::Cancel;

/// `zsr produce`.
pub(crate) fn produce(args: &ProduceArgs) -> u8 {
    exit(push_all(args))
}

fn push_all(args: &ProduceArgs) -> Result<(), Stop> {
    if let Some(why) = no_input() {
        return Err(Stop::Input(why));
    }
    let (cancel, hurry) = cancelled_by_signals()?;
    let (session, flow) = find(&args.stream)?;
    let schema = schema_of(&flow)?;
    check_size(&flow, schema.as_ref(), args.stream.record_size)?;
    let style = args.stream.style();
    style.check().map_err(Stop::Usage)?;
    let stdin = rustix::io::dup(rustix::stdio::stdin()).map_err(failed)?;
    let records = Records::new(args.stream.record_size, style, args.lenient);
    let mut input = Input::new(File::from(stdin), records, cancel.clone());
    let header = header(args, &mut input, schema.as_ref()).map_err(|stop| match stop {
        Stop::Input(why) => Stop::Input(format!("{why} (nothing was pushed; the stream is open)")),
        stop => stop,
    })?;
    let route = route(args, &flow, schema.as_ref(), header.as_deref())?;
    let options = Options {
        member: args.stream.member.clone(),
        record_size: args.stream.record_size,
        cancel,
        ..Options::default()
    };
    let producer = FlowProducer::attach(args.stream.contact()?, &args.stream.flow, &options)?;
    let (counts, member) = (producer.counts(), producer.member().to_owned());
    let text = args.stream.record_size.is_none();
    // Lines stand for tuples, unless these are asked for as bytes.
    let tuples = schema.filter(|_| text);
    let columns = tuples.is_some() || matches!(route.routing().key(), KeyRef::Number(_));
    let mut push = Push {
        screen: Screen::new(counts.clone(), true, args.stream.quiet),
        producer,
        route,
        tuples,
        style,
        tuple: Vec::new(),
        quotes: (text && !style.quoted).then_some(columns),
        lost: false,
    };
    let mut done = push.all(&mut input, args.skip, args.key.as_deref());
    if let Some(taken) = input.taken() {
        push.screen.say(format_args!("warning: {taken}"));
    }
    let mut held = Vec::new();
    if let Ok(()) | Err(Stop::Quietly | Stop::Input(_)) = &done {
        match push.settle(&hurry) {
            Ok(left) => held = left,
            Err(stop) => done = Err(stop),
        }
    }
    // Asked before the program gives its rings back.
    let why = if held.is_empty() { String::new() } else { impaired(&session, &args.stream.flow) };
    let Push { producer, mut screen, mut lost, .. } = push;
    match &done {
        Ok(()) if !args.keep_open => lost |= told(&screen, producer.close())?,
        Ok(()) | Err(Stop::Quietly | Stop::Input(_) | Stop::Usage(_)) => {
            lost |= told(&screen, producer.leave())?;
        }
        // The producer's handles go without an end: the stream is broken, and reports that.
        Err(_) => drop(producer),
    }
    let pushed = counts.records();
    let left = format!(
        "{}; the stream is open, and consumers wait: `zsr produce {} --member {member} < /dev/null` ends it; go on behind these records of \
         the input with --skip {}",
        delivery(pushed, &held, &why, lost),
        args.stream.flow,
        args.skip + pushed
    );
    match done {
        Err(Stop::Quietly) => Err(Stop::Failed(format!("interrupted: {left}"))),
        Err(Stop::Input(why)) => Err(Stop::Input(format!("{why} ({left})"))),
        Err(Stop::Failed(why)) => Err(Stop::Failed(format!("{why} ({pushed} records had been pushed)"))),
        Err(stop) => Err(stop),
        Ok(()) => {
            screen.end("pushed", &format!(": {}", delivery(pushed, &held, &why, lost)));
            // A flow that goes on without members that die has reported that.
            match lost && flow.settings.is_none_or(|s| s.policy() != proto::Policy::DropMember) {
                true => Err(Stop::Told),
                false => Ok(()),
            }
        }
    }
}

/// Why a flow is impaired, if it is.
fn impaired(session: &Session, name: &str) -> String {
    let request = proto::GetFlowRequest { name: name.to_owned() };
    let flow = session.call(|mut c| async move { c.get_flow(request).await });
    flow.ok().filter(|f| f.state() == proto::FlowState::Impaired).map(|f| f.reason).unwrap_or_default()
}

/// A sentence on the fate of `pushed` records; `why`: the reason why the held ones wait, if not for room.
fn delivery(pushed: u64, held: &[Held], why: &str, lost: bool) -> String {
    if lost {
        return format!("some of what was pushed is lost, as said ({pushed} records)");
    }
    if held.is_empty() {
        return format!("what was pushed is delivered ({pushed} records)");
    }
    let held: Vec<String> = held.iter().map(Held::to_string).collect();
    let held = held.join(", ");
    if !why.is_empty() {
        return format!("of {pushed} records, {held} wait: {why}");
    }
    format!("of {pushed} records, {held} wait for room and are delivered when there is some")
}

/// Whether records pushed before are lost. The loss is reported at once: the others can still be delivered.
fn told(screen: &Screen, pushed: Result<(), ProgramError>) -> Result<bool, Stop> {
    match pushed {
        Ok(()) => Ok(false),
        Err(e @ ProgramError::Lost { .. }) => {
            screen.say(format_args!("error: {e}"));
            Ok(true)
        }
        Err(e) => Err(e.into()),
    }
}

/// A program that pushes.
struct Push {
    producer: FlowProducer,
    screen: Screen,
    route: KeyRoute,
    tuples: Option<Schema>,
    style: Style,
    tuple: Vec<u8>,
    /// Whether columns are looked at: until the user was warned of quotes.
    quotes: Option<bool>,
    lost: bool,
}

impl Push {
    /// Pushes all records behind the first `skip`. `asked` is the key of the command line: it is wrong if the first
    /// record lacks it.
    fn all(&mut self, input: &mut Input, skip: u64, asked: Option<&str>) -> Result<(), Stop> {
        let mut seen = 0;
        while let Some((record, number)) = input.next(&mut || self.pause())? {
            seen = number + 1;
            if number >= skip {
                if let (Some(asked), true, None) = (asked, number == skip, &self.tuples) {
                    let key = self.route.key().key(record);
                    key.map_err(|e| Stop::Usage(format!("--key {asked}: record {seen}: {e}")))?;
                }
                self.record(record, number)?;
            }
        }
        if seen < skip {
            let has = match seen {
                0 => "no records".to_owned(),
                1 => "only 1 record".to_owned(),
                n => format!("only {n} records"),
            };
            return Err(Stop::Usage(format!("--skip {skip}: standard input has {has}; nothing was pushed")));
        }
        Ok(())
    }

    /// Flushes: a program that waits for more input must not keep records.
    fn pause(&mut self) -> Result<(), Stop> {
        self.producer.counts().wait_for("input");
        self.lost |= told(&self.screen, self.producer.flush())?;
        Ok(())
    }

    fn record(&mut self, record: &[u8], number: u64) -> Result<(), Stop> {
        if let Some(columns) = self.quotes
            && Style::looks_quoted(record, columns)
        {
            self.quotes = None;
            self.screen.say(format_args!("warning: record {}: {QUOTES_HELP}", number + 1));
        }
        let at_record = |e: String| Stop::Input(format!("record {}: {e}", number + 1));
        let record = match &self.tuples {
            Some(schema) => {
                let encoded = schema.encode(record, self.style, &mut self.tuple);
                encoded.map_err(|e| at_record(e.to_string()))?;
                self.tuple.as_slice()
            }
            None => record,
        };
        let own = &mut self.route;
        let mut route = |record: &[u8], consumers: usize| own.choose(record, consumers, number);
        // A loss is of records before this one.
        while told(&self.screen, self.producer.push_by(record, &mut route)).map_err(|stop| match stop {
            Stop::Input(e) => at_record(e),
            stop => stop,
        })? {
            self.lost = true;
        }
        Ok(())
    }

    /// Waits for pushed records to be delivered, as long as they move; returns the records that still wait.
    fn settle(&mut self, hurry: &Cancel) -> Result<Vec<Held>, Stop> {
        loop {
            match self.producer.settle(PATIENCE, hurry) {
                Ok(held) => return Ok(held),
                lost => self.lost |= told(&self.screen, lost.map(|_| ()))?,
            }
        }
    }
}

/// The names in the header, if the input has one. The header has to agree with the schema.
fn header(
    args: &ProduceArgs,
    input: &mut Input,
    schema: Option<&Schema>,
) -> Result<Option<Vec<String>>, Stop> {
    if !args.header {
        return Ok(None);
    }
    let header = input.header(args.stream.style())?;
    match schema {
        Some(schema) if !header.iter().eq(schema.columns().iter().map(|c| &c.name)) => {
            let header = header.join(", ");
            let what = format!("the header names the columns `{header}`, the flow's schema is `{schema}`");
            Err(Stop::Input(what))
        }
        _ => Ok(Some(header)),
    }
}

/// How records are routed, and where their keys are.
fn route(
    args: &ProduceArgs,
    flow: &proto::Flow,
    schema: Option<&Schema>,
    header: Option<&[String]>,
) -> Result<KeyRoute, Stop> {
    let bad = |what: String| Stop::Usage(what);
    let routing = match &args.key {
        Some(key) => Routing::Hash(parse_key(key).ok_or_else(|| {
            bad(format!(
                "--key {key}: expected a column by name or number from 1, OFFSET:LENGTH in bytes, or *"
            ))
        })?),
        None => parse_routing(&flow.routing).ok_or_else(|| {
            bad(format!("flow `{}`: routing {} is not known here", flow.name, flow.routing))
        })?,
    };
    let style = args.stream.style();
    if let Some(schema) = schema {
        return KeyRoute::in_schema(schema, &routing, style, flow).map_err(|e| bad(e.to_string()));
    }
    let Style { delimiter, quoted } = style;
    let format = match args.stream.record_size {
        Some(record_size) => FileFormat::Binary { record_size },
        None => FileFormat::Delimited { delimiter, header: false, quoted },
    };
    let routed = flow.kind() == proto::FlowKind::Shuffle && flow.consumers.len() > 1;
    let routing = match (routing.key(), header) {
        (KeyRef::Name(name), Some(header)) => match header.iter().position(|column| column == name) {
            Some(index) => routing.with_key(KeyRef::Number(index as u32 + 1)),
            None => {
                let header = header.join(", ");
                return Err(bad(format!("there is no column `{name}`: the header names `{header}`")));
            }
        },
        (KeyRef::Name(name), None) if routed => {
            return Err(bad(format!(
                "column `{name}` is not known, as the flow has no schema: name the column by number with --key, or read a header \
                 with --header"
            )));
        }
        _ => routing,
    };
    let key = KeyReader::new(routing.key(), Content::Records(format), &[]);
    Ok(KeyRoute::new(routing, key))
}
