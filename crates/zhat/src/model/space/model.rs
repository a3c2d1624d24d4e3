//! A space with scores: the thing that has a partition function.

use super::range::range;
use super::{Condition, Event, Restricted, Scores, Space, Step, Structures};
use crate::error::{Error, Result};
use crate::numeric;

/// Beyond this a score has no digits left behind the point.
const LARGEST_SCORE: f64 = 1e12;

/// Structures y of a space with weights exp s(y); Z is their sum.
///
/// ```
/// use zhat::space::{Hypercube, Scores, SpaceModel};
/// let model = SpaceModel::new(Hypercube::new(3)?, Scores::Unary(vec![1.0, -2.0, 0.5]))?;
/// assert_eq!(model.score(&[1, 0, 1])?, 1.5);
/// assert_eq!(model.range(), (-2.0, 1.5));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceModel {
    space: Structures,
    scores: Scores,
    range: (f64, f64),
}

impl SpaceModel {
    /// A space with scores that suit it.
    pub fn new(space: impl Into<Structures>, scores: Scores) -> Result<Self> {
        let space = space.into();
        scores.check(space.base())?;
        let mut model = SpaceModel { space, scores, range: (0.0, 0.0) };
        if model.largest_part() > LARGEST_SCORE {
            return Err(Error::model(format!(
                "a score of {} is so large that sums have no digits left",
                model.largest_part()
            )));
        }
        let range = range(model.space.base(), &model.scores);
        if !(range.0 >= -LARGEST_SCORE && range.1 <= LARGEST_SCORE) {
            let message =
                format!("scores reach from {} to {}: so large a sum has no digits left", range.0, range.1);
            return Err(Error::model(message));
        }
        // Of scores that are all the same the two sums may round to the wrong order.
        model.range = (range.0.min(range.1), range.1.max(range.0));
        Ok(model)
    }

    /// The same scores on the structures that meet these conditions besides.
    ///
    /// ```
    /// use zhat::{LogPartition, Run, exact::Enumeration, model::generate};
    /// let model = generate::space("hypercube", 5, "unary", 1.0, 1)?;
    /// let some = model.restrict(["chosen 2".parse()?, "size 0 3".parse()?])?;
    /// let z = |model| Enumeration::default().log_partition(model, &Run::default());
    /// println!("P = {}", (z(&some)?.value - z(&model)?.value).exp());
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn restrict(&self, conditions: impl IntoIterator<Item = Condition>) -> Result<SpaceModel> {
        let space = Restricted::new(self.space.clone(), conditions)?.into();
        Ok(SpaceModel { space, scores: self.scores.clone(), range: self.range })
    }

    /// The space, by kind.
    pub fn structures(&self) -> &Structures {
        &self.space
    }

    /// The space.
    pub fn space(&self) -> &dyn Space {
        self.space.as_space()
    }

    /// The scores.
    pub fn scores(&self) -> &Scores {
        &self.scores
    }

    /// The numbers of a structure.
    pub fn width(&self) -> usize {
        self.space().width()
    }

    /// Certified ends of the scores, up to rounding ([`SpaceModel::slack`]).
    pub fn range(&self) -> (f64, f64) {
        self.range
    }

    /// s_max − s_min.
    pub fn spread(&self) -> f64 {
        self.range.1 - self.range.0
    }

    /// How far rounding may take a score beyond the range, or from its true value.
    pub fn slack(&self) -> f64 {
        // A score is a sum of at most so many parts, each of which is at most the largest number.
        let parts = match &self.scores {
            Scores::Unary(numbers) => numbers.len(),
            Scores::Products { weights, .. } => weights.len(),
            Scores::Pairwise(pairs) => pairs.unary().len() + 2 * pairs.edges().len(),
            Scores::Position(_) => self.width(),
            Scores::Precedence(_) | Scores::Links(_) => self.width() * self.width() / 2,
            Scores::Distance { .. } => 4,
            Scores::Custom(_) => 1,
        };
        numeric::rounding_allowance(parts as f64, self.largest_part())
    }

    /// The largest absolute value of one part of a score.
    fn largest_part(&self) -> f64 {
        let largest = |numbers: &[f64]| numbers.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        match &self.scores {
            Scores::Unary(numbers)
            | Scores::Position(numbers)
            | Scores::Precedence(numbers)
            | Scores::Links(numbers) => largest(numbers),
            Scores::Products { weights, inputs, .. } => largest(weights) * largest(inputs),
            Scores::Pairwise(pairs) => largest(&pairs.unary).max(largest(&pairs.weights)),
            Scores::Distance { .. } | Scores::Custom(_) => self.range.0.abs().max(self.range.1.abs()),
        }
    }

    /// A bound on |log Z| and everything on the way there, for rounding allowances.
    pub(crate) fn magnitude(&self) -> f64 {
        self.range.0.abs().max(self.range.1.abs()) + super::log_count_bound(self.space()).unwrap_or(0.0).abs()
    }

    /// The same, with the sums of parts of a structure that go before their ends.
    pub(crate) fn partial_magnitude(&self) -> f64 {
        let parts = match &self.scores {
            Scores::Precedence(_) | Scores::Links(_) => self.width() * self.width() / 2,
            _ => self.width(),
        };
        self.magnitude() + parts as f64 * self.largest_part()
    }

    /// θ, in the order of φ; empty for user-defined scores.
    pub fn parameters(&self) -> Vec<f64> {
        let n = self.width();
        match &self.scores {
            Scores::Unary(numbers) | Scores::Position(numbers) | Scores::Precedence(numbers) => {
                numbers.clone()
            }
            Scores::Products { weights, .. } => weights.clone(),
            Scores::Pairwise(pairs) => pairs.unary.iter().chain(&pairs.weights).copied().collect(),
            Scores::Distance { spread, .. } => vec![*spread],
            Scores::Links(matrix) => {
                (0..n).flat_map(|i| (i + 1..n).map(move |j| matrix[i * n + j])).collect()
            }
            Scores::Custom(_) => Vec::new(),
        }
    }

    /// s(y). The structure must be one of the space; [`Space::check`] says whether it is.
    pub fn score(&self, structure: &[u32]) -> Result<f64> {
        self.scores.score(self.space.base(), structure)
    }

    /// The score after a step, from the one before.
    pub fn score_after(&self, before: f64, structure: &[u32], step: &Step) -> Result<f64> {
        match self.scores.change(self.space.base(), structure, step) {
            Some(change) => Ok(before + change),
            None => self.score(structure),
        }
    }

    /// The same with β·θ. For models with an oracle: user-defined scores have no θ.
    pub(crate) fn tempered(&self, beta: f64) -> SpaceModel {
        let mut model = self.clone();
        model.scores.scale(beta);
        model.range = (beta * self.range.0, beta * self.range.1);
        model
    }

    /// The length of θ and φ.
    pub fn dimension(&self) -> usize {
        self.scores.dimension()
    }

    /// Adds `weight`·φ(y) to `sums`, which is as long as θ.
    pub fn add_features(&self, structure: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        self.scores.add(self.space.base(), structure, weight, sums)
    }

    /// R: no feature vector is further than this from some point that is the same for all.
    pub fn radius(&self) -> f64 {
        let n = self.width() as f64;
        let signs = matches!(self.space.base(), Structures::Hypercube(cube) if cube.has_signs());
        // Zeros and ones are half a unit from one half.
        let unit = if signs { 1.0 } else { 0.5 };
        match &self.scores {
            Scores::Unary(numbers) => unit * (numbers.len() as f64).sqrt(),
            Scores::Products { inputs, .. } => unit * (n * inputs.iter().map(|x| x * x).sum::<f64>()).sqrt(),
            Scores::Pairwise(pairs) => unit * ((pairs.unary().len() + pairs.edges().len()) as f64).sqrt(),
            // ‖φ‖² = n, and the mean of all has the norm 1, to which every φ has the inner product 1.
            Scores::Position(_) => (n - 1.0).max(0.0).sqrt(),
            Scores::Precedence(_) => (0.25 * n * (n - 1.0).max(0.0)).sqrt(),
            Scores::Distance { distance, .. } => 0.5 * distance.largest(self.width()),
            Scores::Links(_) => match self.space.base() {
                Structures::Cycles(_) => n.sqrt(),
                _ => 0.5 * (0.5 * n * (n - 1.0)).sqrt(),
            },
            Scores::Custom(features) => features.radius(),
        }
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> usize {
        let numbers = match &self.scores {
            Scores::Pairwise(pairs) => pairs.unary().len() + 5 * pairs.edges().len(),
            Scores::Distance { places, .. } => places.len() / 2,
            Scores::Links(matrix) => matrix.len(),
            other => other.dimension(),
        };
        let space = match self.space.base() {
            Structures::Subtrees(tree) => 24 * tree.nodes(),
            _ => 8 * self.width(),
        };
        8 * numbers + space
    }

    /// A structure as the numbers of an answer.
    pub(crate) fn state(structure: &[u32]) -> Vec<usize> {
        structure.iter().map(|x| *x as usize).collect()
    }
}

/// E\[φ(y)\], the gradient of log Z: one number for every number of θ.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectations {
    /// The expectations, in the order of θ.
    pub values: Vec<f64>,
    /// No further than this from the truth in Euclidean norm, with the confidence of the guarantee; the
    /// allowance for rounding if they are exact.
    pub radius: f64,
}

impl AsRef<[f64]> for Expectations {
    fn as_ref(&self) -> &[f64] {
        &self.values
    }
}

/// Probabilities of a table of events, each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceMarginals {
    /// The lengths of the table's axes, one or two.
    pub shape: Vec<usize>,
    /// The probabilities, row by row.
    pub values: Vec<f64>,
    /// None is further than this from the truth, with the confidence of the guarantee for all of them
    /// together; the allowance for rounding if they are exact.
    pub radius: f64,
}

impl AsRef<[f64]> for SpaceMarginals {
    fn as_ref(&self) -> &[f64] {
        &self.values
    }
}

impl SpaceMarginals {
    /// The probability of an event that has a place in the table.
    pub fn probability(&self, event: Event) -> Option<f64> {
        let n = *self.shape.first()?;
        let at = match (event, self.shape.len()) {
            (Event::Chosen(i), 1) => (i < n).then_some(i)?,
            (Event::Chosen(i), _) => (i < n).then_some(i * n + i)?,
            (Event::At { item: i, position: j } | Event::Linked(i, j), 2) => {
                (i < n && j < n).then_some(i * n + j)?
            }
            _ => return None,
        };
        self.values.get(at).copied()
    }
}
