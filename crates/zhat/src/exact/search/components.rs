//! The parts that a problem falls into.
//!
//! Two open variables belong together if a clause that is not yet satisfied has both, or a factor's weights depend on both.
//! Learned clauses connect nothing. A component is described in full by the live atoms of its variables, the numbers of its
//! clauses (all their other literals are false) and the numbers of its factors' forms: that is its key.

use super::constraints::Literal;
use super::propagate::Propagator;
use super::weights::Weights;

/// Where a component lies in the list of all that are under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    start: usize,
    pub variables: usize,
    pub clauses: usize,
    pub factors: usize,
}

/// The components under way, the latest last.
#[derive(Debug, Default)]
pub(super) struct Components {
    pub stack: Vec<Component>,
    /// For each component its variables, clauses, and factors with their forms.
    items: Vec<u32>,
    /// By atom the clauses of three literals and more, and the atoms it shares a clause of two with.
    clauses: Rows,
    partners: Rows,
    /// When a clause, a variable and a factor were last met.
    clause_seen: Vec<u32>,
    variable_seen: Vec<u32>,
    factor_seen: Vec<u32>,
    epoch: u32,
    /// The form that each factor has now.
    form: Vec<u32>,
    pub steps: u64,
}

/// Lists one after the other.
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
            form: vec![0; factors],
            ..Components::default()
        }
    }

    pub fn bytes(&self) -> usize {
        let fixed = self.clauses.items.len() + self.partners.items.len() + 2 * self.clauses.ends.len();
        4 * (3 * fixed + self.clause_seen.len() + 2 * self.variable_seen.len() + 2 * self.factor_seen.len())
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

    /// Pairs of a factor's place and the number of its form.
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

    /// The long clauses that have `atom`.
    pub fn clauses_of(&self, atom: usize) -> &[u32] {
        self.clauses.row(atom)
    }

    /// Makes one component of everything, and returns it with the log of what the factors' forms leave out.
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

    /// Takes the latest component out.
    pub fn pop(&mut self) {
        if let Some(component) = self.stack.pop() {
            self.items.truncate(component.start);
        }
    }

    /// Takes all components after the first `length` out, of which the last is `parent`.
    pub fn truncate(&mut self, length: usize, parent: Component) {
        self.stack.truncate(length);
        self.items.truncate(parent.start + parent.variables + parent.clauses + 2 * parent.factors);
    }

    /// Splits what is open of `parent` into components on top of the stack, largest first, and returns the log of what has been
    /// decided about its factors.
    pub fn split(&mut self, parent: Component, propagator: &Propagator, weights: &mut Weights<'_>) -> f64 {
        // Factors that are waiting have the epoch before, and others must not be looked at: their form is an old one.
        self.epoch += 2;
        let epoch = self.epoch;
        let mut log = 0.0;
        let factors = parent.start + parent.variables + parent.clauses;
        for i in 0..parent.factors {
            let (place, old) = (self.items[factors + 2 * i] as usize, self.items[factors + 2 * i + 1]);
            let form = weights.form(place, propagator);
            self.form[place] = form;
            self.factor_seen[place] = epoch - 1;
            log += weights.forms[form as usize].log - weights.forms[old as usize].log;
        }
        if log == f64::NEG_INFINITY {
            return log;
        }
        let base = self.stack.len();
        let (mut found, mut touched) = (Vec::new(), Vec::new());
        for i in parent.start..parent.start + parent.variables {
            let seed = self.items[i];
            if self.variable_seen[seed as usize] == epoch || propagator.state(seed as usize).is_some() {
                continue;
            }
            let start = self.items.len();
            self.variable_seen[seed as usize] = epoch;
            self.items.push(seed);
            found.clear();
            touched.clear();
            let mut next = start;
            while next < self.items.len() {
                let v = self.items[next] as usize;
                next += 1;
                self.visit(v, propagator, weights, &mut found, &mut touched);
            }
            self.items[start..].sort_unstable();
            found.sort_unstable();
            touched.sort_unstable();
            let variables = self.items.len() - start;
            self.items.extend_from_slice(&found);
            for &place in &touched {
                self.items.extend([place, self.form[place as usize]]);
            }
            self.steps += (variables + found.len() + touched.len()) as u64;
            self.stack.push(Component { start, variables, clauses: found.len(), factors: touched.len() });
        }
        self.arrange(base);
        log
    }

    /// Adds the neighbours of `v`.
    fn visit(
        &mut self,
        v: usize,
        propagator: &Propagator,
        weights: &Weights<'_>,
        found: &mut Vec<u32>,
        touched: &mut Vec<u32>,
    ) {
        let Components {
            items, clauses, partners, clause_seen, variable_seen, factor_seen, form, epoch, ..
        } = self;
        let mut meet = |atom: usize| {
            let u = propagator.variables.owner(atom);
            if variable_seen[u] != *epoch {
                variable_seen[u] = *epoch;
                items.push(u as u32);
            }
        };
        for atom in propagator.variables.atoms(v).filter(|&atom| propagator.is_open(atom)) {
            for &other in partners.row(atom) {
                if propagator.is_open(other as usize) {
                    meet(other as usize);
                }
            }
            for &id in clauses.row(atom) {
                if clause_seen[id as usize] == *epoch {
                    continue;
                }
                clause_seen[id as usize] = *epoch;
                let literals = propagator.clause(id as usize);
                if literals.iter().any(|&literal| propagator.is_true(literal)) {
                    continue;
                }
                found.push(id);
                for literal in literals.iter().filter(|literal| propagator.is_open(literal.atom())) {
                    meet(literal.atom());
                }
            }
        }
        for &place in &weights.touching[v] {
            if factor_seen[place as usize] != *epoch - 1 {
                continue;
            }
            let scope = weights.scope(form[place as usize]);
            if !scope.contains(&(v as u32)) {
                continue;
            }
            factor_seen[place as usize] = *epoch;
            touched.push(place);
            for &u in scope {
                if variable_seen[u as usize] != *epoch {
                    variable_seen[u as usize] = *epoch;
                    items.push(u);
                }
            }
        }
    }

    /// Puts the components from `base` on into order, the largest first.
    fn arrange(&mut self, base: usize) {
        let parts = &self.stack[base..];
        if parts.windows(2).all(|pair| pair[0].variables >= pair[1].variables) {
            return;
        }
        let first = parts[0].start;
        let mut parts = parts.to_vec();
        parts.sort_by_key(|part| std::cmp::Reverse(part.variables));
        let mut sorted = Vec::with_capacity(self.items.len() - first);
        for part in &mut parts {
            let length = part.variables + part.clauses + 2 * part.factors;
            let start = first + sorted.len();
            sorted.extend_from_slice(&self.items[part.start..part.start + length]);
            part.start = start;
        }
        self.items.truncate(first);
        self.items.extend(sorted);
        self.stack.truncate(base);
        self.stack.extend(parts);
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
        // No difference is 0, so that it ends a list.
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

/// Appends a number, seven bits a byte.
fn write(key: &mut Vec<u8>, mut number: u32) {
    while number >= 128 {
        key.push(number as u8 | 128);
        number >>= 7;
    }
    key.push(number as u8);
}
