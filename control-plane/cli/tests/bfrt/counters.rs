//! What the chip has counted, as the controller reads it.

use super::driver::{drivers, rig};
use super::files::program;
use super::flows::Rig;
use zsr_topology::Chip;

/// Some cells are read one by one from the chip; many are fetched by the driver in one go.
#[test]
fn cells_are_what_the_chip_has_counted() {
    for chip in [Chip::Tofino, Chip::Tofino2] {
        let rig = Rig::new(chip, &program(chip));
        let controller = rig.start().expect("a controller");
        let (received, transfers) = {
            let mut state = rig.recorder.state();
            let [received, transfers] = [".received", ".transfers"]
                .map(|name| state.tables.named(name).map(|(id, _)| id).expect("a counter"));
            state.counted = (0..100).map(|cell| ((received, cell), 1000 + cell)).collect();
            state.counted.insert((transfers, 7), 70);
            state.fetched.clear();
            (received, transfers)
        };
        let read = |cells: &[(u32, u16)]| {
            let cells = rig.runtime.block_on(controller.reader().cells(cells)).expect("cells");
            cells.into_iter().map(|cell| cell.packets).collect::<Vec<_>>()
        };
        assert_eq!(read(&[(transfers, 7), (received, 3), (transfers, 8)]), [70, 1003, 0]);
        assert_eq!(rig.recorder.state().fetched, [""; 0]);

        // Egress is in both programs of a Tofino 1.
        let sent = {
            let mut state = rig.recorder.state();
            let all = ["pipe.EgressShell", "fold.FoldEgressShell"].map(|egress| {
                let of = format!("{egress}.count_egress.sent");
                state.tables.0.iter().find(|(_, t)| t.name == of).map(|(id, _)| *id)
            });
            for (counter, packets) in all.into_iter().flatten().zip([500, 20]) {
                state.counted.insert((counter, 5), packets);
            }
            all[0].expect("a counter")
        };
        assert_eq!(read(&[(sent, 5)]), [if chip == Chip::Tofino { 520 } else { 500 }]);

        rig.recorder.state().counted.insert((received, 3), 2003);
        let mut many: Vec<_> = (0..90).map(|cell| (received, cell)).collect();
        many.push((transfers, 7));
        let mut expected: Vec<u64> = (0..90).map(|cell| 1000 + cell).collect();
        expected[3] = 2003;
        expected.push(70);
        assert_eq!(read(&many), expected);
        let fetched = rig.recorder.state().fetched.clone();
        assert!(matches!(&fetched[..], [one] if one.ends_with(".received")), "{fetched:?}");
        rig.sound();
        rig.end(controller);
    }
}

/// The same of a driver, with the time that a read takes.
#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn counters_at_the_driver() {
    for (chip, address) in drivers() {
        let rig = rig(chip, &address, 1);
        let controller = rig.start().expect("a controller");
        let received = rig.recorder.state().tables.named(".received").map(|(id, _)| id).expect("a counter");
        for cells in [1, 15, 16, 1024, 4096] {
            let asked: Vec<_> = (0..cells).map(|cell| (received, cell)).collect();
            let begun = std::time::Instant::now();
            let read = rig.runtime.block_on(controller.reader().cells(&asked)).expect("cells");
            println!("{}: {cells} cells of a counter of 16384 in {:?}", chip.name(), begun.elapsed());
            assert!(read.iter().all(|cell| cell.packets == 0));
        }
        rig.sound();
        rig.end(controller);
    }
}
