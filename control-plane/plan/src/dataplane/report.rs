//! Reports that the data plane sends by itself: digests of `report_t` (p4/arch/v1model/main.p4, reasons in
//! p4/common/types.p4).

use crate::p4::names;
use std::fmt;

/// Members of a Tofino's report, which has all four fields from which v1model takes `code` (p4/arch/tna/main.p4).
pub const FIELDS: [&str; 11] =
    ["reason", "aeth", "tries", "word", "head", "worker", "producer", "qp", "role", "phase", "psn"];

/// Which of the switch's connections a report is about (P4: `ROLE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Items, tail words.
    ProducerData,
    /// Polls of a producer ring.
    ProducerPoll,
    /// Items, commit records.
    ConsumerData,
    /// Polls of a consumer ring.
    ConsumerPoll,
}

impl Role {
    /// The role's number in the data plane.
    pub fn number(self) -> u8 {
        match self {
            Role::ProducerData => names::ROLE_PRODUCER_DATA,
            Role::ProducerPoll => names::ROLE_PRODUCER_POLL,
            Role::ConsumerData => names::ROLE_CONSUMER_DATA,
            Role::ConsumerPoll => names::ROLE_CONSUMER_POLL,
        }
    }

    fn from_number(n: u64) -> Option<Self> {
        [Role::ProducerData, Role::ProducerPoll, Role::ConsumerData, Role::ConsumerPoll]
            .into_iter()
            .find(|r| u64::from(r.number()) == n)
    }

    /// Whether a producer ring is at the far end.
    pub fn is_producers(self) -> bool {
        matches!(self, Role::ProducerData | Role::ProducerPoll)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::ProducerData => "producer data",
            Role::ProducerPoll => "producer poll",
            Role::ConsumerData => "consumer data",
            Role::ConsumerPoll => "consumer poll",
        })
    }
}

/// The reason of a report. Its text follows the name of a ring or connection: "… refused a request".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A NIC refused a request for good: the AETH's syndrome (IBTA 9.7.5.2.2). The worker stops.
    Refused(u8),
    /// A transfer has no progress after this number of retries, and is still tried.
    Silent(u32),
    /// A PU's counter left its ring, with this number of bytes between the counters. The worker stops.
    BadCount(u32),
    /// The answer to a query: the head of the worker's consumer rings, in bytes.
    State(u32),
    /// The worker's last commit is acknowledged.
    Closed,
    /// A reason that this controller does not know.
    Unknown(u64),
}

impl Reason {
    /// Whether the worker goes on.
    pub fn is_fatal(self) -> bool {
        matches!(self, Reason::Refused(_) | Reason::BadCount(_) | Reason::Unknown(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Refused(syndrome) => {
                let meaning = match syndrome {
                    0x61 => "invalid request",
                    0x62 => "remote access error: key, bounds or rights",
                    0x63 => "remote operational error",
                    _ => "NAK",
                };
                write!(f, "refused a request (AETH syndrome {syndrome:#04x}, {meaning})")
            }
            Reason::Silent(tries) => write!(f, "made no progress in {tries} retries"),
            Reason::BadCount(fill) => {
                write!(f, "has a counter outside of its ring (fill {fill} B): its program broke the ring ABI")
            }
            Reason::State(head) => write!(f, "has its head at {head} B"),
            Reason::Closed => f.write_str("is closed"),
            Reason::Unknown(reason) => write!(f, "caused unknown report {reason}"),
        }
    }
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The reason of the report.
    pub reason: Reason,
    /// The worker.
    pub worker: u16,
    /// The producer ring of its present or last transfer.
    pub producer: u16,
    /// The connection of the packet that caused the report, if there was one.
    pub qp: u16,
    /// The role of that connection.
    pub role: Option<Role>,
    /// The worker's phase (P4: `PHASE_*`).
    pub phase: u8,
    /// PSN of the worker's next packet to its consumers, 24 bits.
    pub psn: u32,
}

impl Report {
    /// Reads a digest's members; `None` for one of another program.
    pub fn decode(digest: &[u64]) -> Option<Self> {
        let (reason, code, rest) = match *digest {
            [reason, code, ref rest @ ..] if rest.len() == 6 => (reason, code, rest),
            [reason, aeth, tries, word, head, ref rest @ ..] => {
                let code = match reason as u8 {
                    names::REPORT_REFUSED => aeth,
                    names::REPORT_SILENT => tries,
                    names::REPORT_BAD_COUNT => word,
                    _ => head,
                };
                (reason, code, rest)
            }
            _ => return None,
        };
        let &[worker, producer, qp, role, phase, psn] = rest else { return None };
        let reason = match reason as u8 {
            // The AETH: the syndrome is its first byte.
            names::REPORT_REFUSED => Reason::Refused((code >> 24) as u8),
            names::REPORT_SILENT => Reason::Silent(code as u32),
            names::REPORT_BAD_COUNT => Reason::BadCount(code as u32),
            names::REPORT_STATE => Reason::State(code as u32),
            names::REPORT_CLOSED => Reason::Closed,
            _ => Reason::Unknown(reason),
        };
        Some(Report {
            reason,
            worker: worker as u16,
            producer: producer as u16,
            qp: qp as u16,
            role: Role::from_number(role),
            phase: phase as u8,
            // Kept in the upper 24 bits of 32.
            psn: (psn >> 8) as u32 & 0xff_ffff,
        })
    }

    /// Whether the report is about the worker's producer rather than its consumer.
    pub fn is_producers(&self) -> bool {
        self.role.is_some_and(Role::is_producers) || matches!(self.reason, Reason::BadCount(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_by_its_syndrome() {
        let report = Report::decode(&[1, 0x6200_0005, 2, 3, 17, 3, 2, 0x1234_5600]).unwrap();
        assert_eq!(report.role, Some(Role::ConsumerData));
        assert_eq!((report.worker, report.producer, report.qp, report.psn), (2, 3, 17, 0x12_3456));
        assert!(report.reason.is_fatal() && !report.is_producers());
        let words = "refused a request (AETH syndrome 0x62, remote access error: key, bounds or rights)";
        assert_eq!(report.reason.to_string(), words);
    }

    #[test]
    fn a_tofino_sends_all_codes_and_the_controller_picks() {
        let of =
            |reason| Report::decode(&[reason, 0x6200_0005, 7, 9, 64, 2, 3, 17, 3, 2, 0x1234_5600]).unwrap();
        let reasons = [1, 2, 3, 4].map(|reason| of(reason).reason);
        assert_eq!(
            reasons,
            [Reason::Refused(0x62), Reason::Silent(7), Reason::BadCount(9), Reason::State(64)]
        );
        assert_eq!((of(4).worker, of(4).producer, of(4).qp, of(4).psn), (2, 3, 17, 0x12_3456));
    }

    #[test]
    fn digests_of_another_shape_are_no_reports() {
        assert_eq!(Report::decode(&[1, 2, 3]), None);
        assert_eq!(Report::decode(&[9, 0, 1, 0, 0, 0, 0, 0]).unwrap().reason, Reason::Unknown(9));
    }
}
