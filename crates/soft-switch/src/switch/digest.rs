//! Digests: samples gathered into lists, equal samples suppressed until acknowledged.

use std::collections::HashMap;

use super::Switch;
use crate::control::{DigestConfig, DigestList, Notification};
use crate::error::ControlError;
use crate::info::DigestId;
use crate::table::key::to_bytes;

/// A list is sent at this size even if the configuration sets no limit.
const LIST_LIMIT: usize = 1024;
/// Samples remembered as unacknowledged; beyond, suppression forgets.
const MEMORY: usize = 16384;

type Sample = Vec<Vec<u8>>;

/// State of one digest.
#[derive(Debug, Default)]
pub(crate) struct DigestState {
    config: Option<DigestConfig>,
    batch: Vec<Sample>,
    /// When the first sample of the batch came.
    since: u64,
    /// Samples sent (or in the batch, list 0) and not acknowledged: list and time.
    unacked: HashMap<Sample, (u64, u64)>,
    last_list: u64,
}

impl DigestState {
    /// When the batch must be sent.
    pub(super) fn due(&self) -> Option<u64> {
        let c = self.config.filter(|_| !self.batch.is_empty())?;
        Some(self.since.saturating_add(c.max_timeout_ns))
    }

    fn limit(&self) -> usize {
        match self.config {
            Some(c) if c.max_list_size > 0 => (c.max_list_size as usize).min(LIST_LIMIT),
            _ => LIST_LIMIT,
        }
    }
}

impl Switch {
    fn digest_state(&mut self, id: DigestId) -> Result<&mut DigestState, ControlError> {
        let missing = ControlError::NotFound { kind: "digest", id: u64::from(id.0) };
        self.digests.get_mut(id.index()).ok_or(missing)
    }

    /// Configures a digest; `None` stops it. Samples of a digest without configuration are dropped.
    pub fn set_digest(&mut self, id: DigestId, config: Option<DigestConfig>) -> Result<(), ControlError> {
        let d = self.digest_state(id)?;
        d.config = config;
        if config.is_none() {
            d.batch.clear();
            d.unacked.clear();
        }
        Ok(())
    }

    /// A digest's configuration, `None` if it is not configured.
    pub fn digest(&self, id: DigestId) -> Result<Option<DigestConfig>, ControlError> {
        let missing = ControlError::NotFound { kind: "digest", id: u64::from(id.0) };
        self.digests.get(id.index()).map(|d| d.config).ok_or(missing)
    }

    /// Acknowledges a list: its samples are told again when they come again.
    pub fn ack_digest(&mut self, id: DigestId, list_id: u64) -> Result<(), ControlError> {
        self.digest_state(id)?.unacked.retain(|_, (list, _)| *list != list_id);
        Ok(())
    }

    /// Takes a sample of the packet at hand.
    pub(super) fn learn(&mut self) {
        let id = std::mem::take(&mut self.core.digest);
        let Some((digest, fields)) = self.program.image.learn_lists.get(&id) else { return };
        let d = &mut self.digests[*digest];
        let Some(config) = d.config else {
            self.stats.all.digest_drops += 1;
            return;
        };
        let now = self.core.now_ns;
        let value = |(slot, width): &(u16, u32)| {
            let limbs = (*width as usize).div_ceil(64).max(1);
            to_bytes(&self.core.slots[*slot as usize..][..limbs], *width)
        };
        let sample: Sample = fields.iter().map(value).collect();
        if let Some((list, at)) = d.unacked.get(&sample) {
            let suppressed = *list == 0 || now.saturating_sub(*at) < config.ack_timeout_ns;
            if suppressed && config.ack_timeout_ns > 0 {
                return;
            }
        }
        self.stats.all.digest_samples += 1;
        if d.unacked.len() >= MEMORY {
            d.unacked.clear();
        }
        if config.ack_timeout_ns > 0 {
            d.unacked.insert(sample.clone(), (0, now));
        }
        if d.batch.is_empty() {
            d.since = now;
        }
        d.batch.push(sample);
        let digest = *digest;
        if config.max_timeout_ns == 0 || d.batch.len() >= d.limit() {
            self.send_digest(digest, now);
        }
    }

    fn send_digest(&mut self, digest: usize, now_ns: u64) {
        let d = &mut self.digests[digest];
        if d.batch.is_empty() {
            return;
        }
        d.last_list += 1;
        let samples = std::mem::take(&mut d.batch);
        for s in &samples {
            if let Some(entry) = d.unacked.get_mut(s) {
                *entry = (d.last_list, now_ns);
            }
        }
        let list = DigestList {
            digest: DigestId(digest as u32),
            list_id: d.last_list,
            samples,
            timestamp_ns: now_ns,
        };
        self.send(Notification::Digest(list), None);
    }

    /// Sends the lists whose time is up.
    pub(super) fn flush_digests(&mut self, now_ns: u64) {
        for i in 0..self.digests.len() {
            if self.digests[i].due().is_some_and(|due| due <= now_ns) {
                self.send_digest(i, now_ns);
            }
        }
    }
}
