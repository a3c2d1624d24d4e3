//! A space with scores, which has a partition function.

use super::range::range;
use super::{Condition, Event, Restricted, Scores, Space, Step, Structures};
use crate::error::{Error, Result};
use crate::numeric;

/// Maximum |score|; larger scores have too few digits after the decimal point.
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
    /// A model from a space and scores that are defined for it.
    ///
    /// # Errors
    /// If the scores are not defined for the space, have the wrong length or are not finite, or a score may
    /// exceed 10¹² in absolute value.
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
        // If all scores are equal, the two sums may round to the wrong order.
        model.range = (range.0.min(range.1), range.1.max(range.0));
        Ok(model)
    }

    /// The model restricted to the structures that also satisfy these conditions.
    ///
    /// # Errors
    /// As [`Restricted::new`].
    ///
    /// ```
    /// use zhat::{LogPartition, Run};
    /// use zhat::exact::Enumeration;
    /// use zhat::model::generate;
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

    /// The space, by type.
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

    /// The number of values in a structure.
    pub fn width(&self) -> usize {
        self.space().width()
    }

    /// Certified bounds on the scores, up to rounding ([`SpaceModel::slack`]).
    pub fn range(&self) -> (f64, f64) {
        self.range
    }

    /// s_max − s_min.
    pub fn spread(&self) -> f64 {
        self.range.1 - self.range.0
    }

    /// Upper bound on the rounding error of a score.
    pub fn slack(&self) -> f64 {
        // A score is a sum of at most this many parts.
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

    /// The maximum absolute value of one part of a score.
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

    /// An upper bound on |log Z| and all intermediate results, for rounding allowances.
    pub(crate) fn magnitude(&self) -> f64 {
        self.range.0.abs().max(self.range.1.abs()) + super::log_count_bound(self.space()).unwrap_or(0.0).abs()
    }

    /// Like [`SpaceModel::magnitude`], including partial sums of scores.
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

    /// s(y). The structure must belong to the space; [`Space::check`] tests this.
    ///
    /// # Errors
    /// If a user-defined score fails or is outside its stated range.
    ///
    /// # Panics
    /// May panic if the structure does not belong to the space.
    pub fn score(&self, structure: &[u32]) -> Result<f64> {
        self.scores.score(self.space.base(), structure)
    }

    /// The score after a step, from the score before it.
    ///
    /// # Errors
    /// As [`SpaceModel::score`].
    ///
    /// # Panics
    /// May panic if the structure does not belong to the space.
    pub fn score_after(&self, before: f64, structure: &[u32], step: &Step) -> Result<f64> {
        match self.scores.change(self.space.base(), structure, step) {
            Some(change) => Ok(before + change),
            None => self.score(structure),
        }
    }

    /// The model with β·θ. Not for user-defined scores, which have no θ.
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
    ///
    /// # Errors
    /// If user-defined features fail.
    ///
    /// # Panics
    /// May panic if the structure does not belong to the space.
    pub fn add_features(&self, structure: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        self.scores.add(self.space.base(), structure, weight, sums)
    }

    /// R, the radius of a ball that contains all feature vectors.
    pub fn radius(&self) -> f64 {
        let n = self.width() as f64;
        let signs = matches!(self.space.base(), Structures::Hypercube(cube) if cube.has_signs());
        // The values 0 and 1 have distance 1/2 from 1/2.
        let unit = if signs { 1.0 } else { 0.5 };
        match &self.scores {
            Scores::Unary(numbers) => unit * (numbers.len() as f64).sqrt(),
            Scores::Products { inputs, .. } => unit * (n * inputs.iter().map(|x| x * x).sum::<f64>()).sqrt(),
            Scores::Pairwise(pairs) => unit * ((pairs.unary().len() + pairs.edges().len()) as f64).sqrt(),
            // ‖φ‖² = n; the mean of all φ has norm 1 and inner product 1 with every φ.
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

    /// The memory of the model, in bytes.
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

    /// A structure as a state of an answer.
    pub(crate) fn state(structure: &[u32]) -> Vec<usize> {
        structure.iter().map(|x| *x as usize).collect()
    }
}

/// E\[φ(y)\], the gradient of log Z: one number for each component of θ.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectations {
    /// The expectations, in the order of θ.
    pub values: Vec<f64>,
    /// Error radius in Euclidean norm, at the confidence of the guarantee; for exact values, the rounding
    /// allowance.
    pub radius: f64,
}

impl AsRef<[f64]> for Expectations {
    fn as_ref(&self) -> &[f64] {
        &self.values
    }
}

/// Probabilities of a table of events.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceMarginals {
    /// The lengths of the one or two axes of the table.
    pub shape: Vec<usize>,
    /// The probabilities, row-major.
    pub values: Vec<f64>,
    /// Error radius of each probability, at the joint confidence of the guarantee; for exact values, the
    /// rounding allowance.
    pub radius: f64,
}

impl AsRef<[f64]> for SpaceMarginals {
    fn as_ref(&self) -> &[f64] {
        &self.values
    }
}

impl SpaceMarginals {
    /// The probability of an event, if it is in the table.
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
