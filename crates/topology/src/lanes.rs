//! Which speeds, lanes and error corrections a Tofino's ports have together, as its driver has it (p4lang/open-p4studio, bf_pm_intf.c:
//! `pm_port_valid_speed_and_channel_internal`).

use super::tofino::{Chip, Fec};

const NONE_OR_RS: &[Fec] = &[Fec::None, Fec::ReedSolomon];
const NONE_OR_FC: &[Fec] = &[Fec::None, Fec::Firecode];
const ALL: &[Fec] = &[Fec::None, Fec::Firecode, Fec::ReedSolomon];
const RS: &[Fec] = &[Fec::ReedSolomon];

/// Speed in gigabits per second, lanes, and what can correct errors; the first of them where nobody says which.
type Mode = (u32, u32, &'static [Fec]);

const TOFINO: &[Mode] =
    &[(10, 1, NONE_OR_FC), (25, 1, ALL), (40, 4, NONE_OR_FC), (50, 2, ALL), (100, 4, NONE_OR_RS)];
const TOFINO_2: &[Mode] = &[
    (10, 1, NONE_OR_FC),
    (25, 1, ALL),
    (40, 4, NONE_OR_FC),
    (50, 2, ALL),
    (50, 1, RS),
    (100, 4, NONE_OR_RS),
    (100, 2, RS),
    (200, 4, RS),
    (200, 8, RS),
    (400, 8, RS),
];

/// Modes that the ports of `chip` have.
fn modes(chip: Chip) -> &'static [Mode] {
    match chip {
        Chip::Tofino => TOFINO,
        Chip::Tofino2 => TOFINO_2,
    }
}

/// How many lanes ports of `speed` can have, the usual number first; none where the chip has no such speed.
pub(crate) fn lanes(chip: Chip, speed: u32) -> Vec<u32> {
    modes(chip).iter().filter(|mode| mode.0 == speed).map(|mode| mode.1).collect()
}

/// The codes that can correct the errors of ports of that speed with so many lanes.
pub(crate) fn corrections(chip: Chip, speed: u32, lanes: u32) -> &'static [Fec] {
    modes(chip).iter().find(|mode| (mode.0, mode.1) == (speed, lanes)).map_or(&[], |mode| mode.2)
}
