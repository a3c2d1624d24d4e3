//! Jernite, Rush & Sontag (2015), Figure 5: twelve random letters, trained with the exact likelihood and with
//! the bounds.

use zhat::internal::io::write_atomically;
use zhat::internal::numeric::log_sum_exp;
use zhat::internal::optimize::Lbfgs;
use zhat::learn::language::text;
use zhat::learn::language::{Fold, InteractionForm, LanguageModel, Objective, Training, Vocabulary, train};
use zhat::random::Streams;
use zhat::{Error, Result};

use super::{Setting, header, line};
use crate::chart::{self, Axes, Curve};
use crate::output;

const LETTERS: [&str; 4] = ["a", "b", "c", "d"];
const LENGTH: usize = 12;
/// Keeps the parameters of pairs that never occur finite.
const L2: f64 = 1e-3;

/// A chain between two separators (state 0). Its parameters are θ⁰ for all states, then θ¹ in row-major
/// order.
struct Sentence<'a> {
    words: &'a [usize],
    states: usize,
}

impl Sentence<'_> {
    /// log p(words | their number), and its gradient if a buffer is given.
    fn likelihood(&self, theta: &[f64], gradient: Option<&mut [f64]>) -> f64 {
        let (states, n) = (self.states, self.words.len());
        let (unary, pairs) = theta.split_at(states);
        let pair = |x: usize, y: usize| pairs[x * states + y];
        // forward[i][y]: log sum over all paths to word y at position i; backward[i][y]: over all
        // continuations.
        let mut forward = vec![vec![f64::NEG_INFINITY; states]; n];
        let mut backward = forward.clone();
        for y in 1..states {
            forward[0][y] = pair(0, y) + unary[y];
            backward[n - 1][y] = pair(y, 0);
        }
        for i in 1..n {
            for y in 1..states {
                let before: Vec<f64> = (1..states).map(|x| forward[i - 1][x] + pair(x, y)).collect();
                forward[i][y] = log_sum_exp(&before) + unary[y];
                let j = n - 1 - i;
                let after: Vec<f64> =
                    (1..states).map(|z| pair(y, z) + unary[z] + backward[j + 1][z]).collect();
                backward[j][y] = log_sum_exp(&after);
            }
        }
        let ends: Vec<f64> = (1..states).map(|y| forward[n - 1][y] + pair(y, 0)).collect();
        let total = log_sum_exp(&ends);
        let mut score = pair(0, self.words[0]) + pair(self.words[n - 1], 0);
        score += self.words.iter().map(|&word| unary[word]).sum::<f64>();
        score += self.words.windows(2).map(|two| pair(two[0], two[1])).sum::<f64>();
        if let Some(gradient) = gradient {
            gradient.fill(0.0);
            let place = |x: usize, y: usize| states + x * states + y;
            for i in 0..n {
                for y in 1..states {
                    let marginal = (forward[i][y] + backward[i][y] - total).exp();
                    let own = f64::from(u8::from(self.words[i] == y));
                    gradient[y] += own - marginal;
                    if i == 0 {
                        gradient[place(0, y)] += own - marginal;
                    }
                    if i == n - 1 {
                        gradient[place(y, 0)] += own - marginal;
                    }
                    for z in 1..states {
                        if i + 1 < n {
                            let both = forward[i][y] + pair(y, z) + unary[z] + backward[i + 1][z] - total;
                            let own = f64::from(u8::from(self.words[i] == y && self.words[i + 1] == z));
                            gradient[place(y, z)] += own - both.exp();
                        }
                    }
                }
            }
        }
        score - total
    }
}

fn parameters(model: &LanguageModel) -> Vec<f64> {
    let (mrf, states) = (model.mrf(), model.mrf().states());
    let pairs = (0..states * states).map(|i| mrf.interaction(1, i / states, i % states));
    mrf.unary().iter().copied().chain(pairs).collect()
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let mut random = Streams::new(setting.run.seed(), "twelve letters").block(0);
    let letters: Vec<&str> = (0..LENGTH).map(|_| LETTERS[random.below(LETTERS.len())]).collect();
    let path = setting.folder.join("lifted-fig5.txt");
    write_atomically(&path, |out| out.write_all(format!("{}\n", letters.join(" ")).as_bytes()))?;
    let counts = text::count(&path, 1, &setting.run)?;
    let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size: None })?;
    let moments = counts.moments(&vocabulary)?;
    let state = |letter: &&str| vocabulary.state(letter).map(|state| state as usize);
    let words: Vec<usize> = letters.iter().filter_map(state).collect();
    let sentence = Sentence { words: &words, states: vocabulary.states() };
    let iterations = if setting.quick { 15 } else { 60 };
    let size = sentence.states * (1 + sentence.states);
    let positions = moments.positions() as f64;
    // The same penalty as for the bounds, which is per position.
    let mut objective = |theta: &[f64], gradient: &mut [f64]| {
        let value = -sentence.likelihood(theta, Some(gradient));
        let penalty: f64 = theta[sentence.states..].iter().map(|x| 0.5 * L2 * positions * x * x).sum();
        gradient.iter_mut().for_each(|g| *g = -*g);
        for (g, x) in gradient.iter_mut().zip(theta).skip(sentence.states) {
            *g += L2 * positions * x;
        }
        Ok(value + penalty)
    };
    let mut lbfgs = Lbfgs::new(vec![0.0; size], 10);
    let mut exact = Vec::new();
    for iteration in 1..=iterations {
        lbfgs.step(&mut objective)?;
        exact.push((iteration as f64, sentence.likelihood(lbfgs.point(), None)));
    }
    let mut curves = vec![Curve { name: "trained by the exact likelihood".into(), points: exact }];
    for (name, bound) in [("star", Objective::Star), ("spectral", Objective::Spectral(Vec::new()))] {
        let (mut bounds, mut truths) = (Vec::new(), Vec::new());
        for steps in 1..=iterations {
            let how = Training::default()
                .form(InteractionForm::Full)
                .objective(bound.clone())
                .l2(L2)
                .iterations(steps);
            let model = train(&moments, &vocabulary, None, &how, None, &setting.run, &mut |_| Ok(true))?;
            let certified = model.evaluate(&moments, &setting.run)?.log_likelihood;
            let truth = sentence.likelihood(&parameters(&model), None);
            if certified > truth {
                return Err(Error::NoAnswer(format!(
                    "the {name} bound {certified} is above the likelihood {truth}"
                )));
            }
            bounds.push((steps as f64, certified));
            truths.push((steps as f64, truth));
        }
        curves.push(Curve { name: format!("{name} bound"), points: bounds });
        curves.push(Curve { name: format!("likelihood of the {name} model"), points: truths });
    }
    output::print(&format!(
        "N = {LENGTH} letters, K = 1, C = {}: {}\nLog-likelihood of the text given its length, by the number of L-BFGS steps; penalty {L2}/2·‖θ‖² per position.\n\
         The paper shows a plot without numbers: the star bound is lower, and the likelihood of its model is close to that of the model trained exactly.\n\n{}",
        LETTERS.len(),
        letters.join(" "),
        header(&["step", "exact", "star bound", "star model", "spectral bound", "spectral model"])
    ))?;
    for step in [1, 2, 3, 5, 10, 15, 20, 30, 40, 60].into_iter().filter(|&step| step <= iterations) {
        let cells = curves.iter().map(|curve| format!("{:.3}", curve.points[step - 1].1));
        output::print(&line(&[step.to_string()].into_iter().chain(cells).collect::<Vec<_>>()))?;
    }
    let axes = Axes { title: "Twelve random letters, K = 1", x: "L-BFGS steps", y: "log-likelihood" };
    setting.picture("lifted-fig5.svg", &chart::plain(&axes, &curves)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_is_that_of_enumeration_and_its_gradient_that_of_differences() {
        let mut random = Streams::new(1, "figure tests").block(0);
        let words = [1, 3, 2, 2];
        let sentence = Sentence { words: &words, states: 4 };
        let theta: Vec<f64> = (0..20).map(|_| random.normal()).collect();
        let score = |words: &[usize]| {
            let padded: Vec<usize> = [0].iter().chain(words).chain(&[0]).copied().collect();
            let pairs: f64 = padded.windows(2).map(|two| theta[4 + 4 * two[0] + two[1]]).sum();
            pairs + words.iter().map(|&word| theta[word]).sum::<f64>()
        };
        let all: Vec<f64> = (0..81)
            .map(|code| score(&[1 + code % 3, 1 + code / 3 % 3, 1 + code / 9 % 3, 1 + code / 27]))
            .collect();
        let mut gradient = vec![0.0; 20];
        let found = sentence.likelihood(&theta, Some(&mut gradient));
        assert!((found - score(&words) + log_sum_exp(&all)).abs() < 1e-12);
        for i in 0..20 {
            let at = |step: f64| {
                let mut theta = theta.clone();
                theta[i] += step;
                sentence.likelihood(&theta, None)
            };
            let want = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((gradient[i] - want).abs() < 1e-8, "{i}");
        }
    }
}
