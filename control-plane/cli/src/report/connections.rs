//! Purposes of packets, from the switch's packet counts per connection.
//!
//! A producer's data connection gets a READ and a tail WRITE per transfer, and answers with items and an
//! acknowledgement. A consumer's gets items and a commit, and answers with an acknowledgement. All packets but the
//! items have fixed lengths.

use super::figures::SwitchCounts;

/// Ethernet, IPv4, UDP, BTH and ICRC.
const FRAME: u64 = 14 + 20 + 8 + 12 + 4;
const READ: u64 = FRAME + 16;
const TAIL: u64 = FRAME + 16 + 8;
const COMMIT: u64 = FRAME + 16 + 16;
const ACK: u64 = FRAME + 4;
/// Answer to a poll: AETH and a control word.
const WORD: u64 = FRAME + 4 + 8;

/// Packets of the two connections of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Sent on the poll connection.
    pub polls: u64,
    /// Received on the poll connection.
    pub poll_answers: u64,
    /// Sent on the data connection.
    pub sent: u64,
    /// Received on the data connection.
    pub received: u64,
}

impl SwitchCounts {
    /// A producer ring, with the transfers out of it. Each transfer ended with a tail WRITE and its ACK. All other
    /// packets to the ring are READs, and repeated requests.
    pub fn of_producer(c: &ConnectionCounts, transfers: u64) -> Self {
        let tails = transfers.min(c.sent);
        let acks = tails.min(c.received);
        SwitchCounts {
            transfers,
            polls: c.polls,
            control_packets: c.polls + c.poll_answers + c.sent + acks,
            control_bytes: c.polls * READ
                + c.poll_answers * WORD
                + (c.sent - tails) * READ
                + tails * TAIL
                + acks * ACK,
            data_packets: c.received - acks,
            retries: 0,
        }
    }

    /// A consumer ring, with its worker's counters. Commits are acknowledged, items are not.
    pub fn of_consumer(c: &ConnectionCounts, transfers: u64, retries: u64) -> Self {
        let commits = c.received.min(c.sent);
        SwitchCounts {
            transfers,
            polls: c.polls,
            control_packets: c.polls + c.poll_answers + commits + c.received,
            control_bytes: c.polls * READ + c.poll_answers * WORD + commits * COMMIT + c.received * ACK,
            data_packets: c.sent - commits,
            retries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_transfers_of_eight_packets() {
        let producer = ConnectionCounts { polls: 30, poll_answers: 30, sent: 20, received: 90 };
        let counts = SwitchCounts::of_producer(&producer, 10);
        assert_eq!((counts.transfers, counts.data_packets, counts.polls), (10, 80, 30));
        assert_eq!(counts.control_packets, 30 + 30 + 20 + 10);
        assert_eq!(counts.control_bytes, 30 * 74 + 30 * 70 + 10 * 74 + 10 * 82 + 10 * 62);

        let consumer = ConnectionCounts { polls: 5, poll_answers: 5, sent: 90, received: 10 };
        let counts = SwitchCounts::of_consumer(&consumer, 10, 0);
        assert_eq!((counts.transfers, counts.data_packets), (10, 80));
        assert_eq!(counts.control_packets, 5 + 5 + 10 + 10);
        assert_eq!(counts.control_bytes, 5 * 74 + 5 * 70 + 10 * 90 + 10 * 62);
    }

    #[test]
    fn counts_that_make_no_sense_do_not_overflow() {
        let odd = ConnectionCounts { polls: 0, poll_answers: 9, sent: 1, received: 1000 };
        assert_eq!(SwitchCounts::of_producer(&odd, 0).data_packets, 1000);
        assert_eq!(SwitchCounts::of_consumer(&odd, 0, 0).data_packets, 0);
    }
}
