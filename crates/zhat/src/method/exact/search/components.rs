//! Decomposition of the remaining problem into connected components.
//!
//! Two open variables are connected if they share a clause that is not yet satisfied, or if the weights of a
//! factor depend on both. Learned clauses do not connect variables. A component is fully described by the
//! live atoms of its variables, the indices of its clauses (all their other literals are false) and the
//! indices of the forms of its factors. This description is its key in the cache.

use super::constraints::Literal;
use super::propagate::Propagator;
use super::weights::Weights;

/// Position and sizes of a component in the list of items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    start: usize,
    pub variables: usize,
    pub clauses: usize,
    pub factors: usize,
}

/// The open components; the latest comes last.
#[derive(Debug, Default)]
pub(super) struct Components {
    pub stack: Vec<Component>,
    /// For each component: its variables, its clauses, and its factors with their forms.
    items: Vec<u32>,
    /// For each atom, the clauses of three or more literals that contain it, and the atoms with which it
    /// shares a clause of two literals.
    clauses: Rows,
    partners: Rows,
    /// Epochs at which a clause, a variable and a factor were last reached, and at which a variable last
    /// changed.
    clause_seen: Vec<u32>,
    variable_seen: Vec<u32>,
    factor_seen: Vec<u32>,
    changed: Vec<u32>,
    epoch: u32,
    /// Index of the component, within the current split, in which each clause, variable and factor was
    /// reached.
    clause_part: Vec<u32>,
    variable_part: Vec<u32>,
    factor_part: Vec<u32>,
    parts: u32,
    /// For each component of the current split, its position after sorting, and where its next variable,
    /// clause and factor are written.
    place: Vec<u32>,
    next: Vec<[usize; 3]>,
    queue: Vec<u32>,
    /// The current form of each factor.
    form: Vec<u32>,
    pub steps: u64,
}

/// Concatenated lists.
#[derive(Debug, Default)]
struct Rows {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    fn new(rows: Vec<Vec<u32>>) -> Self {
        let mut flat = Rows::default();
        for row in rows {
            flat.items.extend(row);
            flat.ends.push(flat.items.len() as u32);
        }
        flat
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        start..self.ends[row] as usize
    }

    fn row(&self, row: usize) -> &[u32] {
        &self.items[self.range(row)]
    }
}

impl Components {
    /// `pairs` are the clauses of two literals.
    pub fn new(propagator: &Propagator, pairs: &[[Literal; 2]], factors: usize) -> Self {
        let atoms = propagator.variables.atom_count();
        let mut clauses = vec![Vec::new(); atoms];
        for id in 0..propagator.connecting {
            propagator.clause(id).iter().for_each(|literal| clauses[literal.atom()].push(id as u32));
        }
        let mut partners = vec![Vec::new(); atoms];
        for &[a, b] in pairs {
            partners[a.atom()].push(b.atom() as u32);
            partners[b.atom()].push(a.atom() as u32);
        }
        for list in &mut partners {
            list.sort_unstable();
            list.dedup();
        }
        Components {
            clauses: Rows::new(clauses),
            partners: Rows::new(partners),
            clause_seen: vec![0; propagator.connecting],
            variable_seen: vec![0; propagator.variables.len()],
            factor_seen: vec![0; factors],
            clause_part: vec![0; propagator.connecting],
            variable_part: vec![0; propagator.variables.len()],
            factor_part: vec![0; factors],
            changed: vec![0; propagator.variables.len()],
            form: vec![0; factors],
            ..Components::default()
        }
    }

    pub fn bytes(&self) -> usize {
        let fixed = self.clauses.items.len() + self.partners.items.len() + 2 * self.clauses.ends.len();
        4 * (3 * fixed
            + 2 * self.clause_seen.len()
            + 13 * self.variable_seen.len()
            + 3 * self.factor_seen.len())
            + 12 * self.items.len()
            + 96 * self.stack.len()
    }

    pub fn variables(&self, component: Component) -> &[u32] {
        &self.items[component.start..component.start + component.variables]
    }

    pub fn clauses(&self, component: Component) -> &[u32] {
        let start = component.start + component.variables;
        &self.items[start..start + component.clauses]
    }

    /// Pairs of the place of a factor and the index of its form.
    pub fn factors(&self, component: Component) -> &[u32] {
        let start = component.start + component.variables + component.clauses;
        &self.items[start..start + 2 * component.factors]
    }

    /// The open atoms that share a clause of two literals with `atom`.
    pub fn open_partners<'a>(
        &'a self,
        propagator: &'a Propagator,
        atom: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        self.partners.row(atom).iter().map(|&other| other as usize).filter(|&other| propagator.is_open(other))
    }

    /// Creates one component with all variables. Returns it with the log of the constants of the factors'
    /// forms.
    pub fn push_all(&mut self, propagator: &Propagator, weights: &mut Weights<'_>) -> (Component, f64) {
        let mut log = 0.0;
        let variables = propagator.variables.len();
        self.items.extend(0..variables as u32);
        self.items.extend(0..propagator.connecting as u32);
        for place in 0..weights.len() {
            let form = weights.form(place, propagator);
            log += weights.forms[form as usize].log;
            self.items.extend([place as u32, form]);
        }
        let all = Component { start: 0, variables, clauses: propagator.connecting, factors: weights.len() };
        self.stack.push(all);
        (all, log)
    }

    /// Removes the latest component.
    pub fn pop(&mut self) {
        if let Some(component) = self.stack.pop() {
            self.items.truncate(component.start);
        }
    }

    /// Removes all components after the first `length`; the last remaining one is `parent`.
    pub fn truncate(&mut self, length: usize, parent: Component) {
        self.stack.truncate(length);
        self.items.truncate(parent.start + parent.variables + parent.clauses + 2 * parent.factors);
    }

    /// Splits the open part of `parent` into components on top of the stack, largest first. Returns the
    /// change in the log-constants of its factors.
    ///
    /// `changed` are the literals that became true since `parent` was found.
    pub fn split(
        &mut self,
        parent: Component,
        changed: &[Literal],
        propagator: &Propagator,
        weights: &mut Weights<'_>,
    ) -> f64 {
        // Factors of `parent` that are not reached yet are marked with the epoch before. All other factors
        // must be skipped, because their forms are outdated.
        if self.epoch > u32::MAX - 4 {
            self.epoch = 0;
            let lists =
                [&mut self.clause_seen, &mut self.variable_seen, &mut self.factor_seen, &mut self.changed];
            lists.into_iter().for_each(|list| list.fill(0));
        }
        self.epoch += 2;
        let epoch = self.epoch;
        let mut log = 0.0;
        for literal in changed {
            self.changed[propagator.variables.owner(literal.atom())] = epoch;
        }
        let factors = parent.start + parent.variables + parent.clauses;
        for i in 0..parent.factors {
            let (place, old) = (self.items[factors + 2 * i] as usize, self.items[factors + 2 * i + 1]);
            let stays = weights.scope(old).iter().all(|&v| self.changed[v as usize] != epoch);
            let form = if stays { old } else { weights.form(place, propagator) };
            self.form[place] = form;
            self.factor_seen[place] = epoch - 1;
            log += weights.forms[form as usize].log - weights.forms[old as usize].log;
        }
        if log == f64::NEG_INFINITY {
            return log;
        }
        let base = self.stack.len();
        let start = self.items.len();
        for i in parent.start..parent.start + parent.variables {
            let seed = self.items[i];
            if self.variable_seen[seed as usize] == epoch || propagator.state(seed as usize).is_some() {
                continue;
            }
            let part = Component { start: 0, variables: 0, clauses: 0, factors: 0 };
            self.parts = (self.stack.len() - base) as u32;
            self.stack.push(part);
            self.variable_seen[seed as usize] = epoch;
            self.queue.push(seed);
            while let Some(v) = self.queue.pop() {
                self.visit(v as usize, propagator, weights);
            }
        }
        self.steps += (parent.variables + parent.clauses + 4 * parent.factors) as u64;
        self.arrange(base, start);
        self.distribute(parent, base, propagator);
        log
    }

    /// Sorts the components from `base` on by size, largest first, and allocates their items from `start` on.
    fn arrange(&mut self, base: usize, mut start: usize) {
        let parts = &mut self.stack[base..];
        // Temporarily stores the index at which the component was found.
        parts.iter_mut().enumerate().for_each(|(i, part)| part.start = i);
        parts.sort_by_key(|part| std::cmp::Reverse(part.variables));
        self.place.resize(parts.len(), 0);
        for (i, part) in parts.iter_mut().enumerate() {
            self.place[part.start] = i as u32;
            part.start = start;
            start += part.variables + part.clauses + 2 * part.factors;
        }
        self.items.resize(start, 0);
    }

    /// Copies the open items of `parent` to their components, preserving their order.
    fn distribute(&mut self, parent: Component, base: usize, propagator: &Propagator) {
        self.next.clear();
        self.next.extend(self.stack[base..].iter().map(|part| {
            let (clauses, factors) =
                (part.start + part.variables, part.start + part.variables + part.clauses);
            [part.start, clauses, factors]
        }));
        let mut at = parent.start;
        for _ in 0..parent.variables {
            let v = self.items[at];
            at += 1;
            if propagator.state(v as usize).is_none() {
                let next = &mut self.next[self.place[self.variable_part[v as usize] as usize] as usize][0];
                self.items[*next] = v;
                *next += 1;
            }
        }
        for _ in 0..parent.clauses {
            let id = self.items[at];
            at += 1;
            if self.clause_seen[id as usize] == self.epoch {
                let next = &mut self.next[self.place[self.clause_part[id as usize] as usize] as usize][1];
                self.items[*next] = id;
                *next += 1;
            }
        }
        for _ in 0..parent.factors {
            let place = self.items[at] as usize;
            at += 2;
            if self.factor_seen[place] == self.epoch {
                let next = &mut self.next[self.place[self.factor_part[place] as usize] as usize][2];
                self.items[*next] = place as u32;
                self.items[*next + 1] = self.form[place];
                *next += 2;
            }
        }
    }

    /// Adds `v` to the latest component and its neighbours to the queue.
    fn visit(&mut self, v: usize, propagator: &Propagator, weights: &Weights<'_>) {
        let epoch = self.epoch;
        let Some(part) = self.stack.last_mut() else { return };
        let number = self.parts;
        let Components { queue, variable_seen, .. } = self;
        let mut meet = |u: usize| {
            if variable_seen[u] != epoch {
                variable_seen[u] = epoch;
                queue.push(u as u32);
            }
        };
        part.variables += 1;
        self.variable_part[v] = number;
        for atom in propagator.variables.atoms(v).filter(|&atom| propagator.is_open(atom)) {
            for &other in self.partners.row(atom) {
                if propagator.is_open(other as usize) {
                    meet(propagator.variables.owner(other as usize));
                }
            }
            for &id in self.clauses.row(atom) {
                // Already reached, or satisfied.
                if self.clause_seen[id as usize] >= epoch - 1 {
                    continue;
                }
                let literals = propagator.clause(id as usize);
                if literals.iter().any(|&literal| propagator.is_true(literal)) {
                    self.clause_seen[id as usize] = epoch - 1;
                    continue;
                }
                self.clause_seen[id as usize] = epoch;
                self.clause_part[id as usize] = number;
                part.clauses += 1;
                for literal in literals.iter().filter(|literal| propagator.is_open(literal.atom())) {
                    meet(propagator.variables.owner(literal.atom()));
                }
            }
        }
        for &place in &weights.touching[v] {
            let place = place as usize;
            if self.factor_seen[place] != epoch - 1 {
                continue;
            }
            let scope = weights.scope(self.form[place]);
            if scope.contains(&(v as u32)) {
                self.factor_seen[place] = epoch;
                self.factor_part[place] = number;
                part.factors += 1;
                scope.iter().for_each(|&u| meet(u as usize));
            }
        }
    }

    /// Writes the key of a component.
    pub fn key(
        &self,
        component: Component,
        propagator: &Propagator,
        weights: &Weights<'_>,
        key: &mut Vec<u8>,
    ) {
        key.clear();
        let mut last = 0;
        for &v in self.variables(component) {
            for atom in propagator.variables.atoms(v as usize).filter(|&atom| propagator.is_open(atom)) {
                write(key, atom as u32 + 1 - last);
                last = atom as u32 + 1;
            }
        }
        // Differences are never 0, so 0 marks the end of a list.
        write(key, 0);
        last = 0;
        for &id in self.clauses(component) {
            write(key, id + 1 - last);
            last = id + 1;
        }
        write(key, 0);
        let mut tables: Vec<u32> = self
            .factors(component)
            .chunks_exact(2)
            .map(|pair| weights.forms[pair[1] as usize].table)
            .collect();
        tables.sort_unstable();
        for table in tables {
            write(key, table);
        }
    }
}

/// Appends a number, with seven bits per byte.
fn write(key: &mut Vec<u8>, mut number: u32) {
    while number >= 128 {
        key.push(number as u8 | 128);
        number >>= 7;
    }
    key.push(number as u8);
}
