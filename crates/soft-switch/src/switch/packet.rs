//! A packet's way: parser, ingress, traffic manager, egress, deparser; copies and further passes.

use zsr_wire::frame::{Frame, FramePool};

use super::{Recirculation, Switch};
use crate::control::Notification;
use crate::exec::core::{Entry, Stop};

/// bmv2's values of `instance_type`.
mod instance {
    pub const NORMAL: u64 = 0;
    pub const INGRESS_CLONE: u64 = 1;
    pub const EGRESS_CLONE: u64 = 2;
    pub const RECIRCULATED: u64 = 4;
    pub const REPLICATION: u64 = 5;
    pub const RESUBMITTED: u64 = 6;
}

/// Where the copies of a waiting packet go: a port, or the replicas of a group or clone session (by slot).
#[derive(Clone, Copy, Debug)]
enum Copies {
    Port(u16),
    Group(u32),
    Session(u32),
}

/// A packet in front of egress, with its headers and metadata.
pub(super) struct Waiting {
    slots: Box<[u64]>,
    frame: Frame,
    cursor: usize,
    packet_length: u64,
    ingress_length: u64,
    truncate: usize,
    recirculate: u64,
    ingress_port: u16,
    copies: Copies,
}

/// A packet in front of another ingress pass, with the fields that it keeps.
pub(super) struct Again {
    frame: Frame,
    list: u64,
    values: Vec<u64>,
    instance: u64,
    ingress_port: u16,
    /// The port by which it comes in again: its pipe is that port's.
    by: u16,
    ingress_length: u64,
    /// Which pass it will be, of those from the received packet to this copy.
    pass: u32,
}

impl Switch {
    /// Takes one frame in through a port and runs it to its end: all copies, and all further passes unless they
    /// are queued. Frames to send are appended to `out` with their port. Frames come from and go back to `pool`.
    pub fn process(
        &mut self,
        now_ns: u64,
        port: u16,
        frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        let left = out.len();
        self.run(now_ns, port, frame, pool, out);
        if out.len() > left {
            self.moved();
        }
    }

    /// As [`process`](Self::process), also for what the switch makes itself.
    pub(super) fn run(
        &mut self,
        now_ns: u64,
        port: u16,
        frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        let len = frame.len() as u64;
        self.stats.all.packets_in += 1;
        let p = self.stats.at(port);
        p.rx_packets += 1;
        p.rx_bytes += len;
        let std = &self.program.image.standard;
        let core = &mut self.core;
        core.now_ns = now_ns;
        core.clear_packet(&self.program.image);
        core.slots[std.ingress_port as usize] = u64::from(port) & 0x1ff;
        core.slots[std.packet_length as usize] = len;
        if let Some(t) = &std.ingress_timestamp {
            core.slots[t.slot as usize] = (now_ns / 1000) & crate::compile::expr::mask(t.width);
        }
        core.packet_length = len;
        core.ingress_length = len;
        core.truncate = usize::MAX;
        self.pass = 1;
        self.enter_pipe_of(port);
        self.ingress(port, frame, pool, out);
        self.drain_egress(pool, out);
        if self.config.recirculation == Recirculation::Inline {
            self.run_again_inline(now_ns, pool, out);
        }
    }

    /// From now on registers are those of the port's pipe.
    #[inline]
    fn enter_pipe_of(&mut self, port: u16) {
        if !self.config.pipes.is_empty() {
            let pipe = self.config.pipes.get(usize::from(port)).copied().unwrap_or(0);
            self.core.enter(pipe);
        }
    }

    fn run_again_inline(&mut self, now_ns: u64, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        let mut passes: u32 = 1;
        while let Some(again) = self.again_queue.pop_front() {
            if again.pass > self.config.max_passes || passes >= self.config.max_passes_of_all {
                self.stats.all.recirculation_drops += 1;
                self.recycle(again, pool);
                continue;
            }
            passes += 1;
            self.run_again(now_ns, again, pool, out);
            self.drain_egress(pool, out);
        }
    }

    fn recycle(&mut self, again: Again, pool: &mut FramePool) {
        pool.put(again.frame);
        self.spare_values.push(again.values);
    }

    /// Another ingress pass.
    pub(super) fn run_again(
        &mut self,
        now_ns: u64,
        again: Again,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        let image = &self.program.image;
        let std = &image.standard;
        let core = &mut self.core;
        core.now_ns = now_ns;
        core.clear_packet(image);
        let mut kept = again.values.iter();
        for &(slot, limbs) in image.field_lists.get(&again.list).map_or(&[][..], |l| l) {
            for l in 0..u16::from(limbs) {
                core.slots[(slot + l) as usize] = kept.next().copied().unwrap_or(0);
            }
        }
        core.slots[std.instance_type as usize] = again.instance;
        let len = again.frame.len() as u64;
        core.slots[std.packet_length as usize] = len;
        core.packet_length = len;
        core.ingress_length = again.ingress_length;
        core.truncate = usize::MAX;
        self.spare_values.push(again.values);
        self.pass = again.pass;
        self.enter_pipe_of(again.by);
        self.ingress(again.ingress_port, again.frame, pool, out);
    }

    /// Parses; leaves the cursor at the payload.
    fn parse(&mut self, frame: &Frame) -> u64 {
        let image = &self.program.image;
        let core = &mut self.core;
        core.cursor = 0;
        core.loops = 0;
        core.checksum_error = false;
        let error = match core.run(image, Entry::Parser, frame.bytes()) {
            Ok(()) => image.errors.none,
            Err(Stop::Error(e)) => e,
        };
        // Only checksum tests run here, which cannot fail as a parser does.
        let _ = core.run(image, Entry::Verify, frame.bytes());
        error
    }

    fn ingress(&mut self, port: u16, frame: Frame, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        self.passes += 1;
        let error = self.parse(&frame);
        if self.core.condemned {
            return self.drop_condemned(port, frame, pool);
        }
        let ingress_size = self.core.packet_length;
        let Switch { program, core, stats, .. } = self;
        let image = &program.image;
        let std = &image.standard;
        if error != image.errors.none {
            stats.all.parser_errors += 1;
        }
        stats.all.checksum_errors += u64::from(core.checksum_error);
        if let Some(s) = std.parser_error {
            core.slots[s as usize] = error;
        }
        if let Some(s) = std.checksum_error {
            core.slots[s as usize] = u64::from(core.checksum_error);
        }
        core.exit = false;
        core.loops = 0;
        core.clone = None;
        (core.digest, core.resubmit, core.recirculate) = (0, 0, 0);
        if core.run(image, Entry::Ingress, frame.bytes()).is_err() {
            return self.drop_condemned(port, frame, pool);
        }
        let core = &mut self.core;
        core.exit = false;

        let resubmit = core.resubmit;
        core.resubmit = 0;
        if let Some((session, list)) = core.clone.take() {
            self.clone_ingress(port, &frame, ingress_size, session, list, pool);
        }
        if self.core.digest != 0 {
            self.learn();
        }
        if resubmit != 0 {
            self.stats.all.resubmissions += 1;
            let values = self.keep(resubmit);
            let ingress_length = self.core.ingress_length;
            let instance = instance::RESUBMITTED;
            let pass = self.pass + 1;
            let again = Again {
                frame,
                list: resubmit,
                values,
                instance,
                ingress_port: port,
                by: port,
                ingress_length,
                pass,
            };
            self.enqueue_again(again, pool);
            return;
        }
        let core = &mut self.core;
        let std = &self.program.image.standard;
        let group = std.mcast_grp.map_or(0, |s| core.slots[s as usize]);
        if group != 0 {
            core.slots[std.instance_type as usize] = instance::REPLICATION;
            match self.replication.groups.slot(group as u32) {
                Some(slot) => self.enqueue(Copies::Group(slot), port, frame, pool),
                None => {
                    self.stats.all.multicast_without_group += 1;
                    pool.put(frame);
                }
            }
            return;
        }
        let to = core.slots[std.egress_spec as usize];
        if to == core.drop_port {
            self.stats.all.ingress_drops += 1;
            self.stats.at(port).drops += 1;
            pool.put(frame);
            return;
        }
        core.slots[std.instance_type as usize] = instance::NORMAL;
        if self.egress_queue.is_empty() {
            // Nothing is in front of it: no need to put its headers aside.
            if let Some(frame) = self.admit(frame, pool) {
                self.egress(to as u16, None, port, frame, pool, out);
            }
        } else {
            self.enqueue(Copies::Port(to as u16), port, frame, pool);
        }
    }

    /// The traffic manager's part: queueing metadata, and the drop of priorities that have no queue.
    fn admit(&mut self, frame: Frame, pool: &mut FramePool) -> Option<Frame> {
        let std = &self.program.image.standard;
        let slots = &mut self.core.slots;
        if std.priority.is_some_and(|s| slots[s as usize] >= u64::from(self.config.priority_queues)) {
            self.stats.all.priority_drops += 1;
            pool.put(frame);
            return None;
        }
        if let Some(ts) = std.enq_timestamp {
            slots[ts as usize] =
                (self.core.now_ns / 1000) & crate::compile::expr::mask(std.enq_timestamp_width);
        }
        Some(frame)
    }

    /// Puts a packet, as its slots are now, in front of egress.
    fn enqueue(&mut self, copies: Copies, ingress_port: u16, frame: Frame, pool: &mut FramePool) {
        let Some(frame) = self.admit(frame, pool) else { return };
        let n = self.program.image.phv_slots;
        let mut slots = self.spare_slots.pop().unwrap_or_else(|| vec![0; n].into_boxed_slice());
        slots.copy_from_slice(&self.core.slots[..n]);
        let core = &self.core;
        self.egress_queue.push_back(Waiting {
            slots,
            frame,
            cursor: core.cursor,
            packet_length: core.packet_length,
            ingress_length: core.ingress_length,
            truncate: core.truncate,
            recirculate: core.recirculate,
            ingress_port,
            copies,
        });
    }

    /// An assertion does not hold for it: it ends here, with what it has asked for.
    #[cold]
    fn drop_condemned(&mut self, port: u16, frame: Frame, pool: &mut FramePool) {
        self.core.condemned = false;
        self.core.exit = false;
        self.stats.all.assert_drops += 1;
        self.stats.at(port).drops += 1;
        pool.put(frame);
    }

    fn enqueue_again(&mut self, again: Again, pool: &mut FramePool) {
        self.wanted += 1;
        if let Recirculation::Queued { capacity } = self.config.recirculation
            && self.again_queue.len() >= capacity
        {
            self.stats.all.recirculation_drops += 1;
            self.recycle(again, pool);
            return;
        }
        self.again_queue.push_back(again);
    }

    /// The values of a field list, to outlive the packet's slots.
    fn keep(&mut self, list: u64) -> Vec<u64> {
        let mut values = self.spare_values.pop().unwrap_or_default();
        values.clear();
        for &(slot, limbs) in self.program.image.field_lists.get(&list).map_or(&[][..], |l| l) {
            values.extend_from_slice(&self.core.slots[slot as usize..][..limbs as usize]);
        }
        values
    }

    /// Writes kept values back after the metadata was cleared.
    fn restore(&mut self, list: u64, values: &[u64]) {
        let image = &self.program.image;
        self.core.clear_metadata(image);
        let mut kept = values.iter();
        for &(slot, limbs) in image.field_lists.get(&list).map_or(&[][..], |l| l) {
            for l in 0..u16::from(limbs) {
                self.core.slots[(slot + l) as usize] = kept.next().copied().unwrap_or(0);
            }
        }
    }

    fn copy_frame(frame: &Frame, pool: &mut FramePool) -> Frame {
        let mut copy = pool.take();
        copy.append(frame.bytes());
        copy
    }

    /// A clone of the packet as it came in, parsed anew.
    fn clone_ingress(
        &mut self,
        port: u16,
        frame: &Frame,
        ingress_size: u64,
        session: u16,
        list: u64,
        pool: &mut FramePool,
    ) {
        let Some(slot) = self.replication.sessions.slot(u32::from(session)) else {
            self.stats.all.clones_without_session += 1;
            return;
        };
        let n = self.program.image.phv_slots;
        let mut saved = self.spare_slots.pop().unwrap_or_else(|| vec![0; n].into_boxed_slice());
        saved.copy_from_slice(&self.core.slots[..n]);
        let (cursor, length, truncate) = (self.core.cursor, self.core.packet_length, self.core.truncate);
        let values = self.keep(list);

        self.core.clear_packet(&self.program.image);
        let std = &self.program.image.standard;
        self.core.slots[std.ingress_port as usize] = u64::from(port) & 0x1ff;
        self.core.packet_length = ingress_size;
        self.core.truncate = usize::MAX;
        self.parse(frame);
        let condemned = std::mem::take(&mut self.core.condemned);
        self.restore(list, &values);
        self.spare_values.push(values);
        self.core.slots[self.program.image.standard.instance_type as usize] = instance::INGRESS_CLONE;
        if condemned {
            self.stats.all.assert_drops += 1;
        } else {
            let copy = Self::copy_frame(frame, pool);
            self.enqueue(Copies::Session(slot), port, copy, pool);
        }

        self.core.slots[..n].copy_from_slice(&saved);
        self.spare_slots.push(saved);
        (self.core.cursor, self.core.packet_length, self.core.truncate) = (cursor, length, truncate);
    }

    /// Runs all packets that wait for egress, in order.
    pub(super) fn drain_egress(&mut self, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        while let Some(w) = self.egress_queue.pop_front() {
            let n = match w.copies {
                Copies::Port(_) => 1,
                Copies::Group(g) => self.replication.groups.at(g).map_or(0, Vec::len),
                Copies::Session(s) => self.replication.sessions.at(s).map_or(0, |s| s.replicas.len()),
            };
            match w.copies {
                Copies::Group(_) if n == 0 => self.stats.all.multicast_without_group += 1,
                Copies::Group(_) => self.stats.all.replicas += n as u64,
                Copies::Session(_) => self.stats.all.clones += n as u64,
                Copies::Port(_) => {}
            }
            let mut frame = Some(w.frame);
            for i in 0..n {
                // As in bmv2, copies forget what the original wanted: truncation and another pass.
                let (port, rid, truncate) = match w.copies {
                    Copies::Port(p) => (p, None, w.truncate),
                    Copies::Group(g) => match self.replication.groups.at(g).and_then(|g| g.get(i)) {
                        Some(r) => (r.port, Some(r.instance), usize::MAX),
                        None => break,
                    },
                    Copies::Session(s) => {
                        let Some(s) = self.replication.sessions.at(s) else { break };
                        let Some(r) = s.replicas.get(i) else { break };
                        let cut = s.packet_length_bytes as usize;
                        (r.port, Some(r.instance), if cut > 0 { cut } else { usize::MAX })
                    }
                };
                // The last copy is the frame itself.
                let last = i + 1 == n;
                let this = match &frame {
                    Some(f) if !last => Some(Self::copy_frame(f, pool)),
                    _ => frame.take(),
                };
                let Some(this) = this else { break };
                let core = &mut self.core;
                core.slots[..w.slots.len()].copy_from_slice(&w.slots);
                core.cursor = w.cursor;
                core.packet_length = w.packet_length;
                core.ingress_length = w.ingress_length;
                core.truncate = truncate;
                core.recirculate = if matches!(w.copies, Copies::Port(_)) { w.recirculate } else { 0 };
                self.egress(port, rid, w.ingress_port, this, pool, out);
            }
            if let Some(f) = frame {
                pool.put(f);
            }
            self.spare_slots.push(w.slots);
        }
    }

    /// Egress, deparser, and out.
    fn egress(
        &mut self,
        port: u16,
        rid: Option<u16>,
        ingress_port: u16,
        frame: Frame,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) {
        self.enter_pipe_of(port);
        let Switch { program, core, queue_depths, .. } = self;
        let image = &program.image;
        let std = &image.standard;
        let now_us = core.now_ns / 1000;
        if let (Some(s), Some(rid)) = (std.egress_rid, rid) {
            core.slots[s as usize] = u64::from(rid);
        }
        if let Some(t) = &std.egress_timestamp {
            core.slots[t.slot as usize] = now_us & crate::compile::expr::mask(t.width);
        }
        if let Some(delta) = std.deq_timedelta {
            core.slots[delta as usize] = 0;
        }
        // Nothing waits between ingress and egress: the queue is the one behind, which bmv2 has in between.
        for depth in [std.enq_qdepth, std.deq_qdepth].into_iter().flatten() {
            core.slots[depth as usize] = queue_depths.get(usize::from(port)).map_or(0, |d| u64::from(*d));
        }
        if let (Some(qid), Some(priority)) = (std.qid, std.priority) {
            core.slots[qid as usize] = core.slots[priority as usize];
        }
        core.slots[std.egress_port as usize] = u64::from(port) & 0x1ff;
        // Anything but the drop port: bmv2 writes the number above it, cut to the field's 9 bits.
        core.slots[std.egress_spec as usize] = (core.drop_port + 1) & 0x1ff;
        core.slots[std.packet_length as usize] = core.packet_length & 0xffff_ffff;
        core.exit = false;
        core.loops = 0;
        core.clone = None;
        if core.run(image, Entry::Egress, frame.bytes()).is_err() {
            return self.drop_condemned(port, frame, pool);
        }
        let core = &mut self.core;
        core.exit = false;
        let recirculate = core.recirculate;
        if let Some((session, list)) = core.clone.take() {
            self.clone_egress(ingress_port, &frame, session, list, pool);
        }
        let core = &mut self.core;
        if core.slots[self.program.image.standard.egress_spec as usize] == core.drop_port {
            self.stats.all.egress_drops += 1;
            self.stats.at(port).drops += 1;
            pool.put(frame);
            return;
        }
        let Some(frame) = self.deparse(frame, pool) else { return };
        if recirculate != 0 {
            self.stats.all.recirculations += 1;
            let values = self.keep(recirculate);
            let ingress_length = frame.len() as u64;
            let (list, instance) = (recirculate, instance::RECIRCULATED);
            let pass = self.pass + 1;
            let again = Again { frame, list, values, instance, ingress_port, by: port, ingress_length, pass };
            self.enqueue_again(again, pool);
            return;
        }
        self.transmit(port, frame, pool, out);
    }

    /// A clone of the packet as egress leaves it.
    fn clone_egress(&mut self, port: u16, frame: &Frame, session: u16, list: u64, pool: &mut FramePool) {
        let Some(slot) = self.replication.sessions.slot(u32::from(session)) else {
            self.stats.all.clones_without_session += 1;
            return;
        };
        let meta = self.program.image.metadata_slots;
        let n = self.program.image.phv_slots;
        let mut saved = self.spare_slots.pop().unwrap_or_else(|| vec![0; n].into_boxed_slice());
        saved[..meta].copy_from_slice(&self.core.slots[..meta]);
        let truncate = std::mem::replace(&mut self.core.truncate, usize::MAX);
        let values = self.keep(list);
        self.restore(list, &values);
        self.spare_values.push(values);
        self.core.slots[self.program.image.standard.instance_type as usize] = instance::EGRESS_CLONE;
        let copy = Self::copy_frame(frame, pool);
        self.enqueue(Copies::Session(slot), port, copy, pool);
        self.core.slots[..meta].copy_from_slice(&saved[..meta]);
        self.core.truncate = truncate;
        self.spare_slots.push(saved);
    }

    /// Writes the headers in front of the payload.
    fn deparse(&mut self, mut frame: Frame, pool: &mut FramePool) -> Option<Frame> {
        let Switch { program, core, stats, .. } = self;
        let room = |frame: &mut Frame, cursor: usize, size: usize| {
            if size <= cursor {
                frame.trim_front(cursor - size);
                return true;
            }
            if frame.grow_front(size - cursor).is_some() {
                return true;
            }
            // Too little room in front: the payload has to move to another frame.
            let mut wider = pool.take();
            let payload = frame.bytes().get(cursor..).unwrap_or_default();
            let fits = wider.grow_back(size).is_some() && wider.append(payload);
            pool.put(std::mem::replace(frame, wider));
            fits
        };
        if !core.deparse(&program.image, &mut frame, room) {
            if std::mem::take(&mut core.condemned) {
                stats.all.assert_drops += 1;
            } else {
                stats.all.oversize_drops += 1;
            }
            pool.put(frame);
            return None;
        }
        Some(frame)
    }

    fn transmit(&mut self, port: u16, mut frame: Frame, pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) {
        if self.core.truncate < frame.len() {
            frame.truncate(self.core.truncate);
            self.stats.all.truncations += 1;
        }
        let to_cpu = port == self.config.cpu_port;
        if !to_cpu && self.allowed.as_ref().is_some_and(|a| !a[port as usize]) {
            self.stats.all.unknown_port_drops += 1;
            pool.put(frame);
            return;
        }
        self.stats.all.packets_out += 1;
        let p = self.stats.at(port);
        p.tx_packets += 1;
        p.tx_bytes += frame.len() as u64;
        if to_cpu {
            self.send(Notification::PacketIn(frame), Some(pool));
        } else {
            out.push((port, frame));
        }
    }
}
