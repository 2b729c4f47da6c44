//! CSV files that others have stumbled over.

/// What any reader of CSV takes, by what is awkward about it; the first record of each has the columns `id` and `name`.
pub fn sound() -> Vec<(&'static str, Vec<u8>)> {
    let megabyte =
        format!("id,name\n1,\"{}\"\n2,b\n", "long, \"\"and\"\" longer\n".repeat((1 << 20) / 21 - 8));
    let texts: [(&str, &[u8]); 15] = [
        ("an empty line at the end", b"id,name\n1,a\n\n"),
        ("the same with CR and LF", b"id,name\r\n1,a\r\n\r\n"),
        ("empty lines at the end", b"id,name\n1,a\n\n\r\n\n"),
        ("empty lines in the middle", b"id,name\n\n1,a\n\n\n2,b\n"),
        ("the same with CR and LF", b"id,name\r\n\r\n1,a\r\n\r\n\r\n2,b\r\n"),
        ("empty lines first", b"\n\r\nid,name\n1,a\n"),
        ("a column that ends with a line's end", b"id,name\n1,\"a\n\"\n2,\"b\r\n\"\r\n3,\"\n\"\n"),
        ("doubled quotes at both ends", b"id,name\n1,\"\"\"a\"\"\"\n2,\"\"\"\"\n3,\"\"\n"),
        ("quotes that are text", b"id,name\n1,the \"big\" one\n2,5\" disk\n3,a\"\n"),
        ("bytes of zero", b"id,name\n1,a\0b\n2,\"\0\"\n\0,c\n"),
        ("a carriage return between quotes", b"id,name\n1,\"a\rb\"\n2,\"\r\"\r\n"),
        ("no line's end at the end", b"id,name\n1,a\n2,b"),
        ("a quote at the end", b"id,name\r\n1,a\r\n2,\"b\nc\""),
        ("a byte order mark", b"\xef\xbb\xbfid,name\n1,a\n"),
        ("a byte order mark in front of a quote", b"\xef\xbb\xbf\"id\",name\n\"1\n1\",a\n\n"),
    ];
    let texts = texts.map(|(what, text)| (what, text.to_vec()));
    texts.into_iter().chain([("a column of 1 MiB", megabyte.into_bytes())]).collect()
}

/// What RFC 4180 does not allow: line and column, some words of what is said, and the rows, if it can be taken nevertheless.
pub const BROKEN: [(&[u8], &str, &str, Option<usize>); 8] = [
    (b"id,name\n1,\"John, Doe,25\n3,\"Bob\",35\n", "3:3", "begins at line 2, column 3", Some(1)),
    (b"id,name\n1,\"a\"b\n2,c\n", "2:5", "text follows", Some(2)),
    (b"id,name\n1,a\n\n2,\"b\nc\n", "4:3", "a quote is opened", Some(2)),
    (b"id,name\r\n1,a\r\n2,\"b\" \r\n", "3:5", "text follows", Some(2)),
    (b"id,name\n1,a\r2,b\r", "2:4", "a carriage return without a line feed", Some(1)),
    (b"id,\"name\" \n1,a\n", "1:9", "text follows", Some(1)),
    (b"\xff\xfei\x00d\x00,\x00n\x00\n\x001\x00,\x00a\x00\n\x00", "1:1", "UTF-16", None),
    (b"\xfe\xff\x00i\x00d\x00,\x00n\x00\n\x001\x00,\x00a\x00\n", "1:1", "UTF-16", None),
];

/// Rows as the crate csv reads them, in order of their columns.
pub fn rows(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).flexible(true);
    let rows = reader.from_reader(text).into_byte_records();
    let mut rows: Vec<Vec<Vec<u8>>> =
        rows.map(|row| row.expect("CSV").iter().map(<[u8]>::to_vec).collect()).collect();
    rows.sort();
    rows
}
