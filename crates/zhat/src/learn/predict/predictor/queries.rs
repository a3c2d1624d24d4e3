//! Structures, probabilities and samples of many rows. Where exact sums are out of reach, rows are answered one by
//! one ([`super::row`]).

use super::{Decision, Guaranteed, Prediction, Predictor, RowScores, event, row};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::learn::predict::data::Space;
use crate::learn::predict::form::{Mallows, Mode, Ranking, RankingScores, Work, pair};
use crate::learn::predict::{Form, Inputs, Ranks, Targets, decide};
use crate::method::space::perfect::Draws;
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

impl Predictor {
    /// The structure that is best for a loss, for every row, with its probability and their guarantees.
    ///
    /// # Errors
    /// If the decision does not apply to the space, the inputs have another width, or the budget is exceeded.
    pub fn predict(&self, inputs: &Inputs, decision: Decision, run: &Run) -> Result<Vec<Prediction>> {
        let clock = run.start("prediction");
        let sets = matches!(self.space(), Space::Labels | Space::Hierarchy);
        let applies = match decision {
            Decision::MostProbable => true,
            Decision::Hamming | Decision::F1 => sets,
            Decision::Kendall => self.space() == Space::Ranking,
        };
        if !applies {
            let choices = match self.space() {
                Space::Labels | Space::Hierarchy => "most-probable, hamming or f1",
                Space::Ranking => "most-probable or kendall",
                Space::Partition => "most-probable",
            };
            let message = format!("does not apply to a {} predictor; expected {choices}", self.form.space());
            return Err(Error::argument("decision", message));
        }
        let family = &self.compiled.family;
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                row::predict(&self.row(row, model, run, &clock), decision)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            let mut log_z = vec![0.0; lanes];
            let mut structures = vec![vec![0; family.width()]; lanes];
            match decision {
                // The mode of these models has the largest expected τ: every pair is in its more probable order.
                Decision::Kendall
                    if matches!(self.form, Form::PlackettLuce { .. } | Form::Mallows { .. }) =>
                {
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        family.decode(block.scores, (lane, lanes), work, None, structure);
                    }
                }
                Decision::MostProbable => {
                    family.upward(block.scores, lanes, Mode::Max, work, &mut log_z);
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        family.decode(block.scores, (lane, lanes), work, None, structure);
                    }
                }
                Decision::Hamming => {
                    family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
                    let mut means = vec![0.0; block.scores.len()];
                    family.means(block.scores, lanes, work, &mut means);
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        for (i, y) in structure.iter_mut().enumerate() {
                            *y = u32::from(means[i * lanes + lane] > 0.5);
                        }
                    }
                }
                Decision::F1 => {
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        let model = self.space_model(&block, lane)?;
                        *structure = decide::largest_f1(&model, self.form.hidden() == 1, run, &clock)?;
                    }
                }
                Decision::Kendall => {
                    let table = self.precedence_table(&block, work)?;
                    let n = family.width();
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        let own: Vec<f64> = table.iter().skip(lane).step_by(lanes).copied().collect();
                        *structure = decide::best_order(&own, n)?;
                    }
                }
            }
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            let predict = |(lane, structure): (usize, Vec<u32>)| Prediction {
                log_probability: family.score(block.scores, (lane, lanes), &structure) - log_z[lane],
                structure,
                guarantee: Guarantee::Exact,
                choice: Guarantee::Exact,
            };
            Ok(structures.into_iter().enumerate().map(predict).collect())
        })
    }

    /// P(i before j) for the rows of a block: n × n tables, row by row innermost.
    fn precedence_table(&self, block: &RowScores<'_>, work: &mut Work) -> Result<Vec<f64>> {
        let (n, lanes) = (self.form.width(), block.rows.len());
        let scores = match self.form {
            Form::Positions { .. } => RankingScores::Positions,
            Form::Precedence { .. } => RankingScores::Precedence,
            Form::Mallows { items } => {
                let mallows = Mallows { items };
                let mut table = vec![0.0; n * n * lanes];
                for lane in 0..lanes {
                    let own = mallows.precedences(block.scores, (lane, lanes));
                    own.iter().enumerate().for_each(|(at, p)| table[at * lanes + lane] = *p);
                }
                return Ok(table);
            }
            _ => {
                let mut table = vec![0.0; n * n * lanes];
                for i in 0..n {
                    for j in (0..n).filter(|&j| j != i) {
                        for lane in 0..lanes {
                            let difference = block.scores[j * lanes + lane] - block.scores[i * lanes + lane];
                            table[(i * n + j) * lanes + lane] = 1.0 / (1.0 + difference.exp());
                        }
                    }
                }
                return Ok(table);
            }
        };
        let ranking = Ranking::new(n, scores)?;
        let mut log_z = vec![0.0; lanes];
        self.compiled.family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
        Ok(ranking.precedences(block.scores, lanes, work))
    }

    /// Probabilities of every row: of each label or node, of i before j as an n × n table, or of i and j in
    /// one block as an n × n table with ones on the diagonal. The guarantee of a row is exact, or bounds its largest
    /// error.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    pub fn marginals(&self, inputs: &Inputs, run: &Run) -> Result<Vec<Guaranteed<Vec<f64>>>> {
        self.marginals_with(inputs, row::FAILURE, run)
    }

    /// The same, where the guarantee of each row fails with this probability.
    pub(crate) fn marginals_with(
        &self,
        inputs: &Inputs,
        failure: f64,
        run: &Run,
    ) -> Result<Vec<Guaranteed<Vec<f64>>>> {
        let clock = run.start("marginals");
        let (family, n) = (&self.compiled.family, self.form.width());
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                let row = row::Row { failure, ..self.row(row, model, run, &clock) };
                let (value, guarantee) = row::marginals(&row)?;
                Ok(Guaranteed { value, guarantee })
            });
        }
        let exact = |value: Vec<f64>| Guaranteed { value, guarantee: Guarantee::Exact };
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            if self.space() == Space::Ranking {
                let table = self.precedence_table(&block, work)?;
                let row = |lane: usize| table.iter().skip(lane).step_by(lanes).copied().collect();
                return Ok((0..lanes).map(row).map(exact).collect());
            }
            let (mut log_z, mut means) = (vec![0.0; lanes], vec![0.0; block.scores.len()]);
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            family.means(block.scores, lanes, work, &mut means);
            let row = |lane: usize| match self.space() {
                Space::Partition => {
                    let mut table = vec![1.0; n * n];
                    for i in 0..n {
                        for j in i + 1..n {
                            let p = means[pair(i, j, n) * lanes + lane];
                            (table[i * n + j], table[j * n + i]) = (p, p);
                        }
                    }
                    table
                }
                _ => (0..n).map(|i| means[i * lanes + lane]).collect(),
            };
            Ok((0..lanes).map(row).map(exact).collect())
        })
    }

    /// ln p of the observed structure of every row; for a partial ranking, of all orders that extend it. Those of more
    /// than 16 items are counted in samples, except under Plackett–Luce, and have an interval.
    ///
    /// # Errors
    /// If the targets do not fit the predictor or the inputs, or the budget is exceeded.
    pub fn log_probabilities(
        &self,
        inputs: &Inputs,
        targets: &Targets,
        run: &Run,
    ) -> Result<Vec<Guaranteed<f64>>> {
        self.log_probabilities_with(inputs, targets, row::FAILURE, run)
    }

    /// The same, where the guarantee of each row fails with this probability.
    pub(crate) fn log_probabilities_with(
        &self,
        inputs: &Inputs,
        targets: &Targets,
        failure: f64,
        run: &Run,
    ) -> Result<Vec<Guaranteed<f64>>> {
        self.form.check_space(targets)?;
        if inputs.rows() != targets.rows() {
            let message =
                format!("there are {} rows of inputs and {} of targets", inputs.rows(), targets.rows());
            return Err(Error::argument("targets", message));
        }
        let clock = run.start("likelihood");
        if !self.compiled.family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                let one = row::Row { failure, ..self.row(row, model, run, &clock) };
                match (targets.structure(row), targets) {
                    (None, Targets::Ranks(ranks)) => event::partial_log_probability(&one, ranks.row(row)),
                    (structure, _) => {
                        let (value, guarantee) = row::log_probability(&one, &structure.unwrap_or_default())?;
                        Ok(Guaranteed { value, guarantee })
                    }
                }
            });
        }
        if let (Some(_), Targets::Ranks(ranks)) = (self.form.long_partial(targets), targets) {
            let streams = Streams::new(run.seed(), "predictor partial");
            return self.each_block(inputs, run, &clock, |block, work| {
                let lanes = block.rows.len();
                let each = block.rows.clone().enumerate();
                each.map(|(lane, row)| {
                    let mut random = streams.block(row as u64);
                    let (at, own) = ((lane, lanes), ranks.row(row));
                    self.counted(block.scores, at, work, own, (failure, &mut random), &clock)
                })
                .collect()
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let (mut scores, mut losses) = (block.scores.to_vec(), vec![0.0; block.rows.len()]);
            self.compiled.family.losses(&mut scores, targets, block.rows, work, &mut losses);
            let exact = |loss: f64| Guaranteed { value: -loss, guarantee: Guarantee::Exact };
            Ok(losses.into_iter().map(exact).collect())
        })
    }

    /// ln p of a ranking of a family whose samples are exact and fast; only partial rankings need them.
    pub(super) fn counted(
        &self,
        scores: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        ranks: &[u32],
        (failure, random): (f64, &mut Stream),
        clock: &Clock<'_>,
    ) -> Result<Guaranteed<f64>> {
        if event::partial_order(ranks).is_empty() {
            return Ok(Guaranteed { value: 0.0, guarantee: Guarantee::Exact });
        }
        if let Some(order) = Ranks::order(ranks) {
            let (family, mut log_z) = (&self.compiled.family, vec![0.0; lanes]);
            family.upward(scores, lanes, Mode::Sum, work, &mut log_z);
            let value = family.score(scores, (lane, lanes), &order) - log_z[lane];
            return Ok(Guaranteed { value, guarantee: Guarantee::Exact });
        }
        self.share(scores, (lane, lanes), work, (failure, random), clock, &|order| {
            Ok(event::extends(order, ranks))
        })
    }

    /// ln of the share of samples of a row that satisfy a condition, for a family whose samples are exact and fast.
    pub(super) fn share(
        &self,
        scores: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        (failure, random): (f64, &mut Stream),
        clock: &Clock<'_>,
        holds: &dyn Fn(&[u32]) -> Result<bool>,
    ) -> Result<Guaranteed<f64>> {
        let family = &self.compiled.family;
        family.upward(scores, lanes, Mode::Sum, work, &mut vec![0.0; lanes]);
        let (mut hits, mut failed) = (0, None);
        let many = (row::SAMPLES, random);
        let draws = family.draw(scores, (lane, lanes), work, many, clock, &mut |structure| match holds(
            structure,
        ) {
            Ok(hit) => hits += usize::from(hit),
            Err(error) => failed = Some(error),
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(event::log_share(hits, row::SAMPLES, draws, failure)),
        }
    }

    /// Whether probabilities and predictions are exact. Otherwise exact sums are out of reach, and every prediction
    /// and probability has its own guarantee.
    pub fn is_exact(&self) -> bool {
        self.compiled.family.has_sums()
    }

    /// Exact samples of every row.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    pub fn sample(&self, inputs: &Inputs, count: usize, run: &Run) -> Result<Vec<Vec<Vec<u32>>>> {
        let clock = run.start("sampling");
        let (family, streams) = (&self.compiled.family, Streams::new(run.seed(), "predictor samples"));
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            family.upward(block.scores, lanes, Mode::Sum, work, &mut vec![0.0; lanes]);
            let mut all = Vec::with_capacity(lanes);
            for (lane, row) in block.rows.clone().enumerate() {
                let mut random = streams.block(row as u64);
                let mut own = Vec::with_capacity(count);
                let at = (lane, lanes);
                let many = (count, &mut random);
                let draws = family.draw(block.scores, at, work, many, &clock, &mut |structure| {
                    own.push(structure.to_vec());
                })?;
                if draws == Draws::Approximate {
                    let message = format!("no exact sampler is fast enough for row {row}");
                    return Err(Error::NoAnswer(message));
                }
                all.push(own);
            }
            Ok(all)
        })
    }

    /// The k most probable structures of every row, best first; fewer if there are fewer.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    #[allow(clippy::needless_range_loop)] // several arrays share the index
    pub fn best(&self, inputs: &Inputs, k: usize, run: &Run) -> Result<Vec<Vec<Prediction>>> {
        let clock = run.start("best structures");
        let family = &self.compiled.family;
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                row::best(&self.row(row, model, run, &clock), k)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            let mut log_z = vec![0.0; lanes];
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            let mut all = Vec::with_capacity(lanes);
            for lane in 0..lanes {
                clock.check()?;
                let structures = match self.form {
                    Form::PlackettLuce { .. } => {
                        let own: Vec<f64> = block.scores.iter().skip(lane).step_by(lanes).copied().collect();
                        decide::best_plackett_luce(&own, k)
                    }
                    _ => {
                        let model = self.space_model(&block, lane)?;
                        decide::best_structures(&model, k, self.form.hidden() == 1, run)?
                    }
                };
                let predict = |structure: Vec<u32>| Prediction {
                    log_probability: family.score(block.scores, (lane, lanes), &structure) - log_z[lane],
                    structure,
                    guarantee: Guarantee::Exact,
                    choice: Guarantee::Exact,
                };
                all.push(structures.into_iter().map(predict).collect());
            }
            Ok(all)
        })
    }
}
