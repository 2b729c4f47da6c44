//! Entries and packets for `programs/transport.p4`.

use zsr_soft_switch::*;

fn bytes(v: u64, n: usize) -> Vec<u8> {
    v.to_be_bytes()[8 - n..].to_vec()
}

fn add(s: &mut Switch, table: &str, key: Vec<MatchField>, priority: i32, action: &str, params: Vec<Vec<u8>>) {
    let t = s.info().table(table).expect("table");
    let action = s.info().table_action(t, action).expect("action");
    let action = EntryAction::Call(ActionCall { action, params });
    s.table_insert(t, TableEntry { key, priority, action, idle_timeout_ns: 0, metadata: vec![] })
        .expect("insert");
}

/// Fills all tables, for connections 0 to 255 with queue pair 0x100 + connection.
pub fn fill(s: &mut Switch) {
    let exact = |v: u64, n: usize| MatchField::Exact(bytes(v, n));
    for c in 0..256u64 {
        let conn = |port| vec![bytes(c, 2), bytes(c ^ 1, 2), bytes(port, 2)];
        add(s, "I.connection", vec![exact(0x100 + c, 3)], 0, "I.set_conn", conn(2));
        add(s, "I.source", vec![exact(c, 2), exact(1, 2), exact(0x0a000001, 4)], 0, "I.good", vec![]);
        add(s, "I.params", vec![exact(c, 2)], 0, "I.base", vec![bytes(c * 4096, 4), bytes(c, 4)]);
        let to = [
            (0x0200_0000_0002, 6),
            (0x0200_0000_0001, 6),
            (0x0a000001, 4),
            (0x0a000102, 4),
            (77 + c, 3),
            (99, 4),
        ];
        add(s, "I.peer", vec![exact(c, 2)], 0, "I.target", to.iter().map(|(v, n)| bytes(*v, *n)).collect());
        for (i, t) in ["I.x0", "I.x1", "I.x2", "I.x3"].iter().enumerate() {
            let v = (c + 1).wrapping_mul(0x9e37_79b9) >> i & 0xffff_ffff;
            add(s, t, vec![exact(c, 1)], 0, "I.t0", vec![bytes(v, 4)]);
        }
        add(s, "I.opcode", vec![exact(c, 1)], 0, "I.kind", vec![bytes(c & 3, 1)]);
    }
    for k in 0..4 {
        add(s, "I.rewrite_op", vec![exact(k, 1), exact(1, 1)], 0, "I.op", vec![vec![0x06]]);
    }
    for (net, len, port) in [(0u64, 0, 9u64), (0x0a000000, 8, 8), (0x0a000100, 24, 3)] {
        let key = MatchField::Lpm { value: bytes(net, 4), prefix_len: len };
        add(s, "I.route", vec![key], 0, "I.send", vec![bytes(port, 2)]);
    }
    for i in 0..4u64 {
        let any = MatchField::Optional(None);
        let key = vec![exact32(0xc0a80000 + i), any.clone(), any];
        add(s, "I.acl", key, i as i32 + 1, "I.drop", vec![]);
    }
}

fn exact32(v: u64) -> MatchField {
    MatchField::Ternary { value: bytes(v, 4), mask: vec![0xff; 4] }
}

/// A READ response with `payload` bytes for connection `conn`.
pub fn packet(payload: usize, conn: u8) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
    let ip_len = (20 + 8 + 12 + 4 + payload + 4) as u16;
    p.extend([0x45, 0]);
    p.extend(ip_len.to_be_bytes());
    p.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    p.extend([0xc0, 0x00, 0x12, 0xb7]);
    p.extend((ip_len - 20).to_be_bytes());
    p.extend([0, 0]);
    p.extend([0x0d, 0, 0xff, 0xff, 0, 0, 1, conn, 0, 0, 0, 5]);
    p.extend([0, 0, 0, 1]);
    p.extend((0..payload).map(|i| i as u8));
    p.extend([1, 2, 3, 4]);
    p
}
