//! Unit propagation with watched literals, and clause learning.
//!
//! Clauses of two literals are stored as lists of implications. In longer clauses two literals are watched,
//! neither of which is false if this is possible. A conflict is resolved back to the first unique implication
//! point of the current level: the literal of that level which implies the whole conflict. The resulting
//! clause holds for the whole problem and is kept. It is used for propagation only.
//!
//! Reference: M. Moskewicz et al., *Chaff: engineering an efficient SAT solver*, DAC 2001.

use super::constraints::{Constraints, Literal, Variables};

/// The reason why a literal is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Decision,
    /// All other literals of the clause are false.
    Clause(u32),
    /// This literal is true and implies it.
    Literal(Literal),
}

/// A clause all of whose literals are false.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conflict {
    Clause(u32),
    Pair(Literal, Literal),
}

/// The result of learning from a conflict.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    /// Literals that hold at the current level for every decision, with their reasons.
    pub asserted: Vec<(Literal, Reason)>,
    /// The lower levels already contradict each other.
    pub is_final: bool,
}

#[derive(Clone, Copy, Debug)]
struct Clause {
    start: u32,
    length: u32,
    /// The number of levels of its literals when it was learned.
    glue: u32,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    clause: u32,
    /// Some literal of the clause; if it is true, the clause need not be visited.
    blocker: Literal,
}

/// Ratio of the weights of a conflict and the one before it.
const DECAY: f64 = 1.05;
/// Learned clauses with at most this glue are never discarded.
const GLUE: u32 = 2;
/// Maximum number of steps of probing: about 0.1 s.
const PROBING: u64 = 10_000_000;
/// Activities are scaled down when they exceed this.
const ACTIVITY: f64 = 1e100;

pub(super) struct Propagator {
    pub variables: Variables,
    /// For each literal: 1 true, −1 false, 0 open.
    values: Vec<i8>,
    pub trail: Vec<Literal>,
    head: usize,
    /// Level and reason of each atom.
    level: Vec<u32>,
    reason: Vec<Reason>,
    /// For each literal, the literals that it implies.
    implied: Vec<Vec<Literal>>,
    /// For each literal, the clauses to visit when it becomes false.
    watches: Vec<Vec<Watch>>,
    literals: Vec<Literal>,
    clauses: Vec<Clause>,
    /// Number of clauses that represent the problem, and number of clauses that are never discarded.
    pub connecting: usize,
    permanent: usize,
    pub learned_literals: usize,
    pub activity: Vec<f64>,
    increment: f64,
    seen: Vec<bool>,
    /// Number of clauses and implications visited so far.
    pub steps: u64,
    pub conflicts: u64,
    units: Vec<Literal>,
}

impl Propagator {
    pub fn new(constraints: Constraints) -> Self {
        let Constraints { variables, clauses, implied, .. } = constraints;
        let atoms = variables.atom_count();
        let mut propagator = Propagator {
            values: vec![0; 2 * atoms],
            trail: Vec::with_capacity(atoms),
            head: 0,
            level: vec![0; atoms],
            reason: vec![Reason::Decision; atoms],
            implied: vec![Vec::new(); 2 * atoms],
            watches: vec![Vec::new(); 2 * atoms],
            literals: Vec::new(),
            clauses: Vec::new(),
            connecting: 0,
            permanent: 0,
            learned_literals: 0,
            activity: vec![0.0; 2 * atoms],
            increment: 1.0,
            seen: vec![false; atoms],
            steps: 0,
            conflicts: 0,
            units: Vec::new(),
            variables,
        };
        clauses.iter().for_each(|clause| propagator.add(clause, 0));
        propagator.connecting = propagator.clauses.len();
        implied.iter().for_each(|clause| propagator.add(clause, 0));
        for v in 0..propagator.variables.len() {
            let atoms = propagator.variables.atoms(v);
            if atoms.len() > 1 {
                let some: Vec<Literal> = atoms.map(|atom| Literal::new(atom, true)).collect();
                propagator.add(&some, 0);
            }
        }
        propagator.permanent = propagator.clauses.len();
        propagator
    }

    /// Adds a clause; the first two literals are watched.
    fn add(&mut self, clause: &[Literal], glue: u32) {
        match *clause {
            [unit] => self.units.push(unit),
            [a, b] => {
                self.implied[(!a).index()].push(b);
                self.implied[(!b).index()].push(a);
            }
            [a, b, ..] => {
                let id = self.clauses.len() as u32;
                self.watches[a.index()].push(Watch { clause: id, blocker: b });
                self.watches[b.index()].push(Watch { clause: id, blocker: a });
                let (start, length) = (self.literals.len() as u32, clause.len() as u32);
                self.clauses.push(Clause { start, length, glue });
                self.literals.extend_from_slice(clause);
            }
            // Empty clauses do not occur, because the reduced graph has no factor without a live entry.
            [] => {}
        }
    }

    /// The literals of clause `id`, in arbitrary order.
    pub fn clause(&self, id: usize) -> &[Literal] {
        let Clause { start, length, .. } = self.clauses[id];
        &self.literals[start as usize..(start + length) as usize]
    }

    pub fn is_true(&self, literal: Literal) -> bool {
        self.values[literal.index()] > 0
    }

    pub fn is_false(&self, literal: Literal) -> bool {
        self.values[literal.index()] < 0
    }

    pub fn is_open(&self, atom: usize) -> bool {
        self.values[2 * atom] == 0
    }

    /// The states of `v` that are not ruled out.
    pub fn live(&self, v: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.variables.states(v)).filter(move |&s| !self.is_false(self.variables.is(v, s)))
    }

    /// The state of `v`, if it is decided.
    pub fn state(&self, v: usize) -> Option<usize> {
        if self.variables.states(v) == 2 {
            let value = self.values[2 * self.variables.atoms(v).start];
            (value != 0).then_some(usize::from(value > 0))
        } else {
            (0..self.variables.states(v)).find(|&s| self.is_true(self.variables.is(v, s)))
        }
    }

    /// Makes `literal` true at a level; a conflict if it is false.
    pub fn assign(&mut self, literal: Literal, reason: Reason, level: u32) -> Result<(), Conflict> {
        match self.values[literal.index()] {
            0 => {
                self.values[literal.index()] = 1;
                self.values[(!literal).index()] = -1;
                self.level[literal.atom()] = level;
                self.reason[literal.atom()] = reason;
                self.trail.push(literal);
                Ok(())
            }
            1 => Ok(()),
            _ => Err(match reason {
                Reason::Clause(id) => Conflict::Clause(id),
                Reason::Literal(cause) => Conflict::Pair(!cause, literal),
                Reason::Decision => Conflict::Pair(literal, literal),
            }),
        }
    }

    /// Reverts all assignments after the first `length`.
    pub fn undo(&mut self, length: usize) {
        for literal in self.trail.drain(length..) {
            self.values[literal.index()] = 0;
            self.values[(!literal).index()] = 0;
        }
        self.head = self.head.min(length);
    }

    /// Propagates unit clauses and the literals learned at `level`, before its decision.
    pub fn begin(&mut self, asserted: &[(Literal, Reason)], level: u32) -> Result<(), Conflict> {
        for i in 0..self.units.len() {
            self.assign(self.units[i], Reason::Decision, 0)?;
        }
        self.propagate(level)?;
        for &(literal, reason) in asserted {
            // Clauses in its derivation may have been discarded; then it does not follow yet.
            let follows = match reason {
                Reason::Decision => false,
                Reason::Literal(cause) => self.is_true(cause),
                Reason::Clause(id) => {
                    self.clause(id as usize).iter().all(|&other| other == literal || self.is_false(other))
                }
            };
            if follows {
                self.assign(literal, reason, level)?;
                self.propagate(level)?;
            }
        }
        Ok(())
    }

    /// Propagates at the root level and removes states that lead to a contradiction; false if none are left.
    pub fn probe(&mut self) -> bool {
        if self.begin(&[], 0).is_err() {
            return false;
        }
        let end = self.steps + PROBING;
        loop {
            let length = self.trail.len();
            for literal in (0..self.values.len()).map(|index| Literal::new(index / 2, index % 2 == 0)) {
                if !self.is_open(literal.atom()) || self.steps > end {
                    continue;
                }
                let start = self.trail.len();
                let tried = self.assign(literal, Reason::Decision, 1).and_then(|()| self.propagate(1));
                self.undo(start);
                let refuted = tried.is_err().then(|| self.assign(!literal, Reason::Decision, 0));
                if refuted.is_some_and(|assigned| assigned.and_then(|()| self.propagate(0)).is_err()) {
                    return false;
                }
            }
            if self.trail.len() == length {
                return true;
            }
        }
    }

    /// Propagates all consequences at `level`.
    pub fn propagate(&mut self, level: u32) -> Result<(), Conflict> {
        while let Some(&literal) = self.trail.get(self.head) {
            self.head += 1;
            self.propagate_pairs(literal, level)?;
            self.propagate_clauses(!literal, level)?;
        }
        Ok(())
    }

    fn propagate_pairs(&mut self, literal: Literal, level: u32) -> Result<(), Conflict> {
        self.steps += 1 + self.implied[literal.index()].len() as u64 / 4;
        for i in 0..self.implied[literal.index()].len() {
            let other = self.implied[literal.index()][i];
            self.assign(other, Reason::Literal(literal), level)?;
        }
        // Exactly one of the atoms of a variable is true.
        let atoms = self.variables.atoms(self.variables.owner(literal.atom()));
        if literal.is_positive() && atoms.len() > 1 {
            for atom in atoms.filter(|&atom| atom != literal.atom()) {
                self.assign(Literal::new(atom, false), Reason::Literal(literal), level)?;
            }
        }
        Ok(())
    }

    /// Visits the clauses that watch `falsified`.
    fn propagate_clauses(&mut self, falsified: Literal, level: u32) -> Result<(), Conflict> {
        let mut watches = std::mem::take(&mut self.watches[falsified.index()]);
        self.steps += watches.len() as u64;
        let (mut kept, mut outcome) = (0, Ok(()));
        for i in 0..watches.len() {
            let Watch { clause, blocker } = watches[i];
            watches[kept] = watches[i];
            kept += 1;
            if outcome.is_err() || self.values[blocker.index()] > 0 {
                continue;
            }
            let Clause { start, length, .. } = self.clauses[clause as usize];
            let literals = &mut self.literals[start as usize..(start + length) as usize];
            if literals[0] == falsified {
                literals.swap(0, 1);
            }
            let other = literals[0];
            watches[kept - 1].blocker = other;
            if self.values[other.index()] > 0 {
                continue;
            }
            if let Some(k) = (2..literals.len()).find(|&k| self.values[literals[k].index()] >= 0) {
                literals.swap(1, k);
                let next = literals[1];
                self.watches[next.index()].push(Watch { clause, blocker: other });
                kept -= 1;
                continue;
            }
            outcome = self.assign(other, Reason::Clause(clause), level);
        }
        watches.truncate(kept);
        self.watches[falsified.index()] = watches;
        outcome
    }

    /// Calls `visit` with the false literals that caused `conflict` or implied a literal.
    fn causes(&self, conflict: Conflict, implied: Option<Literal>, mut visit: impl FnMut(Literal)) {
        match conflict {
            Conflict::Clause(id) => {
                self.clause(id as usize).iter().filter(|&&l| Some(l) != implied).for_each(|&l| visit(l));
            }
            Conflict::Pair(a, b) => [a, b].into_iter().filter(|&l| Some(l) != implied).for_each(visit),
        }
    }

    fn reason_of(&self, literal: Literal) -> Option<Conflict> {
        match self.reason[literal.atom()] {
            Reason::Decision => None,
            Reason::Clause(id) => Some(Conflict::Clause(id)),
            Reason::Literal(cause) => Some(Conflict::Pair(!cause, literal)),
        }
    }

    /// Learns from a conflict at `level` (above 0): one clause for the first unique implication point, and
    /// one for the decision.
    pub fn learn(&mut self, conflict: Conflict, level: u32) -> Lesson {
        self.conflicts += 1;
        let mut lesson = Lesson::default();
        let mut below: Vec<Literal> = Vec::new();
        let mut touched: Vec<usize> = Vec::new();
        let mut open = 0;
        let mut cause = (conflict, None);
        let mut at = self.trail.len();
        let mut first = true;
        loop {
            let mut found = Vec::new();
            self.causes(cause.0, cause.1, |literal| found.push(literal));
            for literal in found {
                let atom = literal.atom();
                if self.seen[atom] || self.level[atom] == 0 {
                    continue;
                }
                self.seen[atom] = true;
                touched.push(atom);
                if first {
                    self.bump(literal);
                }
                if self.level[atom] == level {
                    open += 1;
                } else {
                    below.push(literal);
                }
            }
            if open == 0 {
                lesson.is_final = true;
                break;
            }
            while at > 0
                && !(self.seen[self.trail[at - 1].atom()] && self.level[self.trail[at - 1].atom()] == level)
            {
                at -= 1;
            }
            if at == 0 {
                break;
            }
            let literal = self.trail[at - 1];
            let reason = self.reason_of(literal);
            if open == 1 && (first || reason.is_none()) {
                let reason = self.learn_clause(!literal, &below, level);
                lesson.asserted.push((!literal, reason));
                first = false;
            }
            let Some(reason) = reason else { break };
            cause = (reason, Some(literal));
            open -= 1;
            at -= 1;
        }
        touched.into_iter().for_each(|atom| self.seen[atom] = false);
        self.increment *= DECAY;
        lesson
    }

    fn bump(&mut self, literal: Literal) {
        self.activity[literal.index()] += self.increment;
        if self.activity[literal.index()] > ACTIVITY {
            self.activity.iter_mut().for_each(|activity| *activity /= ACTIVITY);
            self.increment /= ACTIVITY;
        }
    }

    /// Activity relative to that of the latest conflict.
    pub fn activity(&self, literal: Literal) -> f64 {
        self.activity[literal.index()] / self.increment
    }

    /// Adds the clause `asserted` ∨ `below` without redundant literals, and returns it as a reason for
    /// `asserted`.
    fn learn_clause(&mut self, asserted: Literal, below: &[Literal], level: u32) -> Reason {
        // A literal whose causes are all in the clause is redundant.
        let superfluous = |literal: &Literal| {
            let Some(reason) = self.reason_of(!*literal) else { return false };
            let mut inside = true;
            self.causes(reason, Some(!*literal), |cause| {
                let atom = cause.atom();
                inside &= self.level[atom] == 0 || (self.seen[atom] && self.level[atom] != level);
            });
            inside
        };
        let mut clause: Vec<Literal> =
            below.iter().copied().filter(|literal| !superfluous(literal)).collect();
        clause.sort_by_key(|literal| std::cmp::Reverse(self.level[literal.atom()]));
        let mut levels: Vec<u32> = clause.iter().map(|literal| self.level[literal.atom()]).collect();
        levels.dedup();
        clause.insert(0, asserted);
        match clause[..] {
            [unit] => {
                self.units.push(unit);
                // It holds unconditionally.
                Reason::Decision
            }
            [_, other] => {
                self.add(&clause, 0);
                Reason::Literal(!other)
            }
            _ => {
                self.learned_literals += clause.len();
                self.add(&clause, levels.len() as u32 + 1);
                Reason::Clause(self.clauses.len() as u32 - 1)
            }
        }
    }

    pub fn learned(&self) -> usize {
        self.clauses.len() - self.permanent
    }

    /// Discards the worse half of the learned clauses; `pinned` are reasons that are still in use elsewhere.
    pub fn forget(&mut self, pinned: &mut [(Literal, Reason)]) {
        let mut locked = vec![false; self.clauses.len()];
        let held = self.trail.iter().map(|literal| self.reason[literal.atom()]);
        for reason in held.chain(pinned.iter().map(|pin| pin.1)) {
            if let Reason::Clause(id) = reason {
                locked[id as usize] = true;
            }
        }
        let mut candidates: Vec<u32> = (self.permanent as u32..self.clauses.len() as u32)
            .filter(|&id| !locked[id as usize] && self.clauses[id as usize].glue > GLUE)
            .collect();
        // Worst first: large glue, then age.
        candidates.sort_by_key(|&id| (std::cmp::Reverse(self.clauses[id as usize].glue), id));
        candidates.truncate(candidates.len() / 2);
        let mut dropped = vec![false; self.clauses.len()];
        candidates.into_iter().for_each(|id| dropped[id as usize] = true);
        let mut place: Vec<u32> = vec![0; self.clauses.len()];
        let mut kept = Vec::with_capacity(self.clauses.len());
        let mut end = 0;
        for (id, clause) in self.clauses.iter().enumerate() {
            if dropped[id] {
                continue;
            }
            let range = clause.start as usize..(clause.start + clause.length) as usize;
            self.literals.copy_within(range, end);
            place[id] = kept.len() as u32;
            kept.push(Clause { start: end as u32, ..*clause });
            end += clause.length as usize;
        }
        self.literals.truncate(end);
        self.clauses = kept;
        self.learned_literals =
            self.clauses[self.permanent..].iter().map(|clause| clause.length as usize).sum();
        for watches in &mut self.watches {
            watches.retain(|watch| !dropped[watch.clause as usize]);
            watches.iter_mut().for_each(|watch| watch.clause = place[watch.clause as usize]);
        }
        let renumber = |reason: &mut Reason| {
            if let Reason::Clause(id) = reason {
                *id = place[*id as usize];
            }
        };
        // The reasons of open atoms are never read.
        for literal in &self.trail {
            renumber(&mut self.reason[literal.atom()]);
        }
        pinned.iter_mut().for_each(|pin| renumber(&mut pin.1));
    }

    /// Memory in bytes, including the room that lists reserve for growth.
    pub fn bytes(&self) -> usize {
        let atoms = self.variables.atom_count();
        160 * atoms + 12 * self.literals.len() + 60 * self.clauses.len()
    }
}
