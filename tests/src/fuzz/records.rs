//! Texts of users about their records: schemas, routing functions, keys, rows of text and of CSV.

use zsr_records::rows::{self, RowEnds, Style, Told};
use zsr_records::{Content, FileFormat, KeyReader, Router, Schema, parse_routing};

/// The text up to the next line feed, and the text behind it.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// A line with a schema, one with a routing function, and rows. Refusals have words. An accepted row becomes a tuple,
/// which becomes a row, which becomes the same tuple. A key goes to a consumer that exists. Rows end in the same places
/// however the text is cut.
pub fn records(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let style = Style { delimiter: [b',', b'|', b'\t', b';'][usize::from(how & 3)], quoted: how & 4 != 0 };
    let consumers = usize::from(how >> 5) + 1;
    let (schema, rest) = line(rest);
    let (routing, text) = line(rest);
    let piece = usize::from(how >> 3 & 3) + 1;
    let (found, taken) = rows_of(text, style, usize::MAX, true).expect("what is taken");
    assert_eq!(Ok((found.clone(), taken)), rows_of(text, style, piece, true), "where rows end");
    match rows_of(text, style, piece, false) {
        Ok(strict) => assert_eq!(strict, (found.clone(), 0), "nothing had to be taken"),
        Err(told) => assert!(taken > 0 && told.line > 0 && told.column > 0 && !told.what.is_empty()),
    }
    for row in &found {
        columns(row, style);
    }
    let schema = match Schema::parse(&String::from_utf8_lossy(schema)) {
        Ok(schema) => schema,
        Err(wrong) => {
            assert!(!wrong.to_string().is_empty());
            return;
        }
    };
    let again = Schema::parse(&schema.to_string()).expect("what it writes itself");
    assert_eq!((schema.columns(), schema.tuple_size()), (again.columns(), again.tuple_size()));
    let Some(routing) = parse_routing(&String::from_utf8_lossy(routing)) else { return };
    let (routing, content) = match schema.resolve(&routing, style, consumers) {
        Ok(resolved) => resolved,
        Err(wrong) => {
            assert!(!wrong.message.is_empty() && !wrong.expected.is_empty());
            return;
        }
    };
    let reader = KeyReader::new(routing.key(), content, schema.columns());
    let router = Router::new(&routing, consumers);
    let fixed = matches!(content, Content::Records(FileFormat::Binary { .. }));
    for (number, row) in (0..).zip(&found) {
        let (mut tuple, mut text, mut twice) = (Vec::new(), Vec::new(), Vec::new());
        if let Err(wrong) = schema.encode(row, style, &mut tuple) {
            assert!(!wrong.to_string().is_empty());
            continue;
        }
        if schema.decode(&tuple, style, &mut text).is_ok() {
            schema.encode(&text, style, &mut twice).unwrap_or_else(|e| {
                panic!("`{}` became `{}`: {e}", row.escape_ascii(), text.escape_ascii());
            });
            assert!(!fixed || tuple == twice, "`{}` `{}`", row.escape_ascii(), text.escape_ascii());
        }
        let key = reader.key(&tuple).expect("a tuple of the schema has its key");
        match router.tuple(&key, reader.form(), number) {
            Ok(consumer) => assert!(consumer < consumers),
            Err(wrong) => assert!(!wrong.to_string().is_empty()),
        }
    }
    // A tuple of any bytes, as a program may push it.
    if let Some(size) = schema.tuple_size()
        && let Some(tuple) = text.get(..size as usize)
    {
        let (mut line, mut again) = (Vec::new(), Vec::new());
        if schema.decode(tuple, style, &mut line).is_ok() {
            let _ = schema.encode(&line, style, &mut again);
        }
    }
}

/// The rows of a text that comes in pieces of at most `piece` bytes, and how much of them RFC 4180 does not allow.
fn rows_of(text: &[u8], style: Style, piece: usize, lenient: bool) -> Result<(Vec<Vec<u8>>, u64), Told> {
    if !style.quoted {
        return Ok((text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect(), 0));
    }
    let (mut found, mut row, mut taken, mut line) = (Vec::new(), Vec::new(), 0, 1);
    // Where the text begins is no mark, as another encoding is refused either way.
    let mut ends = RowEnds::within(style.delimiter, lenient);
    let mut rest = text;
    while !rest.is_empty() {
        let (used, ended) = ends.feed(&rest[..piece.min(rest.len())]).map_err(|broken| {
            row.extend_from_slice(rest);
            broken.tell(&row, line)
        })?;
        assert!(used > 0 && used <= rest.len(), "it goes on");
        row.extend_from_slice(&rest[..used]);
        rest = &rest[used..];
        if ended {
            taken += ends.taken().map_or(0, |(count, _)| count);
            line += row.iter().filter(|b| **b == b'\n').count() as u64;
            found.extend(rows::row(&row).map(<[u8]>::to_vec));
            row.clear();
        }
    }
    let close = ends.finish().map_err(|broken| broken.tell(&row, line))?;
    taken += ends.taken().map_or(0, |(count, _)| count);
    row.extend(close.then_some(b'"'));
    found.extend(rows::row(&row).map(<[u8]>::to_vec));
    Ok((found, taken))
}

/// Columns read one after the other are equal to all columns read at once.
fn columns(row: &[u8], style: Style) {
    let all = style.columns(row);
    for (index, column) in all.iter().enumerate() {
        assert_eq!(style.column(row, index).as_ref(), Ok(column));
    }
    assert_eq!(style.column(row, all.len()), Err(all.len()));
    if style.quoted {
        let mut line = Vec::new();
        style.write(all.iter().map(|column| &column[..]), &mut line);
        assert_eq!(style.columns(&line), all, "`{}` `{}`", row.escape_ascii(), line.escape_ascii());
    }
}
