//! Tables and texts that fit where they are printed.

use std::io::IsTerminal;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};

/// Width where a terminal does not report it.
const USUAL: u16 = 80;
/// Between two columns.
const GAP: usize = 2;

/// How long a line may be; `None`: as long as it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(Option<u16>);

impl Room {
    /// A line is as long as it gets.
    pub const ANY: Room = Room(None);

    /// Lines of so many characters.
    pub fn of(characters: u16) -> Room {
        Room(Some(if characters == 0 { USUAL } else { characters }))
    }

    /// The room on standard output: a terminal's width, unless all columns are wanted. Programs that read the output
    /// find each row in one line, with all of its columns.
    pub fn of_output(everything: bool) -> Room {
        let out = std::io::stdout();
        if everything || !out.is_terminal() {
            return Room::ANY;
        }
        Room::of(rustix::termios::tcgetwinsize(&out).map_or(USUAL, |size| size.ws_col))
    }

    /// Whether a line of so many characters fits.
    pub fn fits(self, characters: usize) -> bool {
        self.0.is_none_or(|room| characters <= room.into())
    }

    /// The lines of `text`, those that are too long folded at their spaces, and indented. Words stay whole.
    pub fn fold(self, text: &str) -> String {
        let Some(room) = self.0 else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            fold(line.trim_end_matches('\n'), room.into(), &mut out);
            if line.ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }
}

fn fold(line: &str, room: usize, out: &mut String) {
    if line.chars().count() <= room {
        out.push_str(line);
        return;
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    out.push_str(&line[..indent]);
    let mut used = indent;
    for (n, word) in line[indent..].split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && used + 1 + length > room {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent + GAP));
            used = indent + GAP;
        } else if n > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    /// Columns with higher numbers go first where not all fit; those with 0 stay.
    rank: u8,
    number: bool,
}

/// A column of words.
pub const fn words(rank: u8, name: &'static str) -> Column {
    Column { name, rank, number: false }
}

/// A column of numbers: they stand at its right, and are never divided.
pub const fn numbers(rank: u8, name: &'static str) -> Column {
    Column { name, rank, number: true }
}

/// A table that leaves out columns where there is no room for all.
pub struct Columns {
    columns: Vec<Column>,
    table: Table,
    /// Whether a line between two columns takes a character of its own.
    ruled: bool,
}

impl Columns {
    /// A table without lines.
    pub fn new(columns: &[Column]) -> Self {
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_header(columns.iter().map(|c| c.name).collect::<Vec<_>>());
        Columns { columns: columns.to_vec(), table, ruled: false }
    }

    /// A table with lines above and below it, and below its header.
    pub fn ruled(columns: &[Column]) -> Self {
        let rule = |c| LineStyle::none().fill(c).junction(c);
        let style =
            TableStyle::new().top_border(rule('─')).header_separator(rule('═')).bottom_border(rule('─'));
        let mut ruled = Columns::new(columns);
        ruled.table.load_style(style);
        ruled.ruled = true;
        ruled
    }

    /// Adds a row; cells that it has not stay empty.
    pub fn add(&mut self, row: impl IntoIterator<Item = String>) {
        self.table.add_row(row.into_iter().collect::<Vec<_>>());
    }

    /// The lines, and which columns there was no room for.
    pub fn text(self, room: Room) -> String {
        let (text, hidden) = self.lines(room);
        text + &not_shown(hidden, room)
    }

    /// The lines, and the names of the columns that there was no room for.
    pub fn lines(mut self, room: Room) -> (String, Vec<&'static str>) {
        let widths: Vec<usize> =
            self.table.column_max_content_widths().into_iter().map(usize::from).collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let total =
            |shown: &[usize]| shown.iter().map(|n| widths[*n] + GAP).sum::<usize>().saturating_sub(GAP);
        while !room.fits(total(&shown)) {
            // Of columns with the same number the last one goes first.
            let least = shown.iter().copied().filter(|n| self.columns[*n].rank > 0);
            let Some(least) = least.max_by_key(|n| (self.columns[*n].rank, *n)) else { break };
            shown.retain(|n| *n != least);
        }
        self.table.set_content_arrangement(ContentArrangement::Disabled);
        if let Room(Some(characters)) = room
            && !room.fits(total(&shown))
        {
            self.table.set_content_arrangement(ContentArrangement::Dynamic).set_width(characters);
        }
        let last = shown.last().copied();
        let padding = GAP as u16 - u16::from(self.ruled);
        for ((n, column), Column { number, .. }) in
            self.table.column_iter_mut().enumerate().zip(&self.columns)
        {
            column.set_padding((0, if Some(n) == last { 0 } else { padding }));
            if *number {
                column.set_cell_alignment(CellAlignment::Right);
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if !shown.contains(&n) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        let text = self.table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let hidden = (0..self.columns.len()).filter(|n| !shown.contains(n)).map(|n| self.columns[n].name);
        (text, hidden.collect())
    }
}

/// Says which columns there was no room for, if any.
pub fn not_shown<'n>(hidden: impl IntoIterator<Item = &'n str>, room: Room) -> String {
    let hidden: Vec<&str> = hidden.into_iter().collect();
    if hidden.is_empty() {
        return String::new();
    }
    room.fold(&format!("not shown: {} (--wide shows all)\n", hidden.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [words(0, "NAME"), numbers(1, "ITEMS"), words(2, "KIND"), words(0, "WHY")];

    fn table(why: &str) -> Columns {
        let mut t = Columns::new(&COLUMNS);
        t.add(["f.h1.h2", "12345", "shuffle", why].map(String::from));
        t.add(["g", "1"].map(String::from));
        t
    }

    #[test]
    fn what_is_worth_least_goes_first() {
        let text = |room| table("so").text(room);
        assert_eq!(
            text(Room::ANY),
            "NAME     ITEMS  KIND     WHY\nf.h1.h2  12345  shuffle  so\ng            1\n"
        );
        assert_eq!(text(Room::of(28)), text(Room::ANY));
        let mut ruled = Columns::ruled(&COLUMNS);
        ruled.add(["f.h1.h2", "12345", "shuffle", "so"].map(String::from));
        let rule = |c: &str| c.repeat(28);
        assert_eq!(
            ruled.text(Room::of(28)),
            format!(
                "{}\nNAME     ITEMS  KIND     WHY\n{}\nf.h1.h2  12345  shuffle  so\n{}\n",
                rule("─"),
                rule("═"),
                rule("─")
            )
        );
        assert_eq!(
            text(Room::of(27)),
            "NAME     ITEMS  WHY\nf.h1.h2  12345  so\ng            1\nnot shown: KIND (--wide\n  shows all)\n"
        );
        assert!(text(Room::of(18)).starts_with("NAME     WHY\nf.h1.h2  so\ng\nnot shown:"));
    }

    #[test]
    fn what_stays_is_folded_and_numbers_are_not() {
        let text = table("because it is so, and because it was so before").text(Room::of(20));
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        assert!(["f.h1.h2", "because", "before"].iter().all(|word| text.contains(word)), "{text}");
        let mut t = Columns::new(&[words(0, "NAME"), numbers(0, "ITEMS")]);
        t.add(["a name of many words", "1234567890"].map(String::from));
        let text = t.text(Room::of(24));
        assert!(text.lines().all(|line| line.chars().count() <= 24) && text.contains("1234567890"), "{text}");
    }

    #[test]
    fn long_lines_are_folded_between_words() {
        let room = Room::of(20);
        assert_eq!(room.fold("short\n\n  and short\n"), "short\n\n  and short\n");
        assert_eq!(room.fold("  one two three four five\nend"), "  one two three four\n    five\nend");
        assert_eq!(
            room.fold("a /path/that/is/longer/than/that b"),
            "a\n  /path/that/is/longer/than/that\n  b"
        );
        assert_eq!(
            Room::ANY.fold("a /path/that/is/longer/than/that b"),
            "a /path/that/is/longer/than/that b"
        );
    }

    #[test]
    fn a_terminal_of_no_width_is_a_usual_one() {
        assert_eq!(Room::of(0), Room::of(80));
        assert!(Room::ANY.fits(100_000) && Room::of(80).fits(80) && !Room::of(80).fits(81));
    }
}
