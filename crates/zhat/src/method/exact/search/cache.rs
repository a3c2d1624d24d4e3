//! Cache of solved components.
//!
//! Entries are found by a hash and compared in full. They are stored in order of insertion, so that the
//! entries inserted since a given mark can be removed. When the cache is full, the least recently used
//! entries are evicted.

/// The value of a component, and its node in the circuit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Solved {
    pub log: f64,
    pub node: u32,
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    hash: u64,
    solved: Solved,
    used: u32,
    /// Index of the previous entry in the same chain, plus one.
    next: u32,
}

const ENTRY_BYTES: usize = 3 * size_of::<Entry>() + 16 + 3 * 4;

#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<Entry>,
    /// For each hash slot, the index of the latest entry, plus one.
    heads: Vec<u32>,
    /// The serial number of each remaining entry: the number of entries inserted before it and not removed,
    /// including evicted ones.
    serials: Vec<u64>,
    next_serial: u64,
    time: u32,
    key_bytes: usize,
    pub limit: usize,
    pub hits: u64,
    pub lookups: u64,
    pub evicted: u64,
}

/// FNV-like mixing of eight bytes at a time.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15u64 ^ key.len() as u64;
    let mut mix = |word: u64| {
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    };
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        mix(u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(u64::from_le_bytes(word));
    hash ^ hash >> 32
}

impl Cache {
    pub fn new(limit: usize) -> Self {
        Cache {
            entries: Vec::new(),
            heads: vec![0; 64],
            serials: Vec::new(),
            next_serial: 0,
            time: 0,
            key_bytes: 0,
            limit,
            hits: 0,
            lookups: 0,
            evicted: 0,
        }
    }

    /// Memory in bytes, including the room that lists reserve for growth.
    pub fn bytes(&self) -> usize {
        self.key_bytes + self.entries.len() * (ENTRY_BYTES + 24) + 4 * self.heads.len()
    }

    fn slot(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    pub fn get(&mut self, key: &[u8]) -> Option<Solved> {
        let hash = hash(key);
        self.lookups += 1;
        self.time = self.time.saturating_add(1);
        let mut at = self.heads[self.slot(hash)];
        while at > 0 {
            let entry = &mut self.entries[at as usize - 1];
            if entry.hash == hash && *entry.key == *key {
                entry.used = self.time;
                self.hits += 1;
                return Some(entry.solved);
            }
            at = entry.next;
        }
        None
    }

    /// Stores a value if there is room.
    pub fn insert(&mut self, key: &[u8], solved: Solved) {
        let needed = key.len() + ENTRY_BYTES + 24;
        if self.bytes() + needed > self.limit {
            self.evict();
            if self.bytes() + needed > self.limit {
                return;
            }
        }
        if self.entries.len() == self.heads.len() && self.bytes() + 12 * self.heads.len() < self.limit {
            self.heads = vec![0; 2 * self.heads.len()];
            self.link();
        }
        let hash = hash(key);
        let slot = self.slot(hash);
        self.entries.push(Entry { key: key.into(), hash, solved, used: self.time, next: self.heads[slot] });
        self.heads[slot] = self.entries.len() as u32;
        self.serials.push(self.next_serial);
        self.next_serial += 1;
        self.key_bytes += key.len();
    }

    /// Rebuilds the chains of all entries, in order.
    fn link(&mut self) {
        self.heads.iter_mut().for_each(|head| *head = 0);
        for i in 0..self.entries.len() {
            let slot = self.slot(self.entries[i].hash);
            self.entries[i].next = self.heads[slot];
            self.heads[slot] = i as u32 + 1;
        }
    }

    /// The current position, for [`back_to`](Self::back_to).
    pub fn mark(&self) -> u64 {
        self.next_serial
    }

    /// Removes all entries inserted since `mark`.
    pub fn back_to(&mut self, mark: u64) {
        while self.serials.last().is_some_and(|&serial| serial >= mark) {
            self.serials.pop();
            if let Some(entry) = self.entries.pop() {
                // The latest entry is the first of its chain.
                let slot = self.slot(entry.hash);
                self.heads[slot] = entry.next;
                self.key_bytes -= entry.key.len();
            }
        }
    }

    /// Evicts the least recently used half.
    fn evict(&mut self) {
        let mut used: Vec<u32> = self.entries.iter().map(|entry| entry.used).collect();
        if used.is_empty() {
            return;
        }
        let middle = used.len() / 2;
        let threshold = *used.select_nth_unstable(middle).1;
        let before = self.entries.len();
        let mut stays = self.entries.iter().map(|entry| entry.used > threshold);
        self.serials.retain(|_| stays.next().unwrap_or(false));
        self.entries.retain(|entry| entry.used > threshold);
        self.key_bytes = self.entries.iter().map(|entry| entry.key.len()).sum();
        self.evicted += (before - self.entries.len()) as u64;
        self.link();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn what_is_kept_is_right_whatever_is_taken_back_or_evicted() {
        let mut random = Streams::new(2, "cache").block(0);
        let value =
            |key: &[u8]| Solved { log: key.iter().map(|&b| f64::from(b)).sum(), node: key.len() as u32 };
        for limit in [0, 3000, 20_000, 1 << 20] {
            let mut cache = Cache::new(limit);
            let mut marks: Vec<(u64, usize)> = Vec::new();
            let mut made: Vec<Vec<u8>> = Vec::new();
            for _ in 0..20_000 {
                match random.below(20) {
                    0 => marks.push((cache.mark(), made.len())),
                    1 => {
                        if let Some((mark, length)) = marks.pop() {
                            cache.back_to(mark);
                            for key in made.split_off(length) {
                                assert!(made.contains(&key) || cache.get(&key).is_none());
                            }
                        }
                    }
                    _ => {
                        let key: Vec<u8> = (0..1 + random.below(3)).map(|_| random.below(9) as u8).collect();
                        match cache.get(&key) {
                            Some(found) => assert_eq!(found, value(&key)),
                            None => {
                                cache.insert(&key, value(&key));
                                made.push(key);
                            }
                        }
                    }
                }
                assert!(cache.bytes() <= limit.max(256), "{} of {limit}", cache.bytes());
            }
            assert!(limit == 0 || cache.hits > 0);
            assert!(limit != 3000 || cache.evicted > 0);
        }
    }
}
