//! The tags given the words.
//!
//! Once the words are known, log Z and the scores c(w) are constants, and the distribution of the tags is
//!
//!   p(t | w) ∝ exp Σ_i [Σ_k V_k(tᵢ, tᵢ₊ₖ) + Σ_m U_m(tᵢ, wᵢ₊ₘ)]:
//!
//! a conditional random field of order K with the weights of the joint model. Separators before and after the sentence
//! are attributes of the tokens at its ends: `tag[-1]=<S>` has the weights V₁(separator, ·). So a joint tagger has all the queries of
//! a [`Tagger`], and they are exact. Cost: one copy of the weights.

use super::super::conditional::Training;
use super::super::conditional::design::Design;
use super::super::examples::Names;
use super::super::{Dictionary, Tagger, Template, features};
use super::JointTagger;
use crate::error::Result;

impl JointTagger {
    /// The distribution of the tags given the words, as a conditional tagger.
    ///
    /// # Errors
    /// Never for a tagger that was trained or read.
    ///
    /// ```
    /// use zhat::Run;
    /// use zhat::learn::tag::joint::{Training, train};
    /// use zhat::learn::tag::{Corpus, ReadOptions};
    /// let text = "the_DT dog_NN barks_VBZ\nthe_DT cat_NN walks_VBZ\n";
    /// let corpus = Corpus::parse(text.into(), "example", &ReadOptions::default())?;
    /// let run = Run::default();
    /// let joint = train(&corpus, None, &Training::default().l2(1e-3), None, &run, &mut |_| Ok(true))?;
    /// let tagger = joint.given_words()?;
    /// let best = tagger.best(&tagger.inputs(&corpus)?, 2, false, &run)?;
    /// assert_eq!(tagger.names(&best[0][0].tags), ["DT", "NN", "VBZ"]);
    /// assert!(best[0][0].log_probability > best[0][1].log_probability);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn given_words(&self) -> Result<Tagger> {
        let (states, tags, order) = (self.layout.tags, self.tags.len(), self.layout.context);
        let (mut names, mut parameters) = (Dictionary::default(), Vec::new());
        for (own, first) in self.lexicon.features.iter().zip(&self.layout.features) {
            let rows = self.point[*first..].chunks_exact(states);
            for (name, row) in own.names.names().zip(rows) {
                names.add(name);
                parameters.extend_from_slice(&row[..tags]);
            }
        }
        let pairs = |k: usize| &self.point[k * states * states..][..states * states];
        for k in 0..order {
            let distance = k as i32 + 1;
            names.add(&features::end(-distance));
            parameters.extend_from_slice(&pairs(k)[tags * states..][..tags]);
            names.add(&features::end(distance));
            parameters.extend((0..tags).map(|tag| pairs(k)[tag * states + tags]));
        }
        let attributes = names.len();
        let all = || 0..tags as u16;
        let of_pairs: Vec<[u16; 2]> = all().flat_map(|a| all().map(move |b| [a, b])).collect();
        let triples: Vec<[u16; 3]> = match order {
            2 => of_pairs.iter().flat_map(|&[a, b]| all().map(move |c| [a, b, c])).collect(),
            _ => Vec::new(),
        };
        let at = |k: usize, a: u16, b: u16| pairs(k)[usize::from(a) * states + usize::from(b)];
        parameters.extend(of_pairs.iter().map(|&[a, b]| at(0, a, b)));
        parameters.extend(triples.iter().map(|&[a, _, c]| at(1, a, c)));
        let design = Design {
            tags,
            order,
            dense: attributes,
            starts: (0..=attributes).map(|attribute| attribute * tags).collect(),
            state_tags: (0..attributes).flat_map(|_| all()).collect(),
            pairs: of_pairs,
            triples,
        };
        let template = Template::parse(&format!("appendix-b:{} ends:{order}", self.lexicon.window()))?;
        let training = Training {
            sentences: self.trained.sentences,
            tokens: self.trained.tokens,
            steps: self.trained.steps,
            objective: self.trained.objective.unwrap_or(0.0),
            converged: self.trained.converged,
            ..Training::default()
        };
        let words: Dictionary = self.lexicon.words().names().skip(1).collect();
        let tags = self.tags.clone();
        let made =
            Tagger::from_parts(tags, Names::Listed(names), design, Some(template), parameters, training);
        Ok(made.with_words(Some(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Training, train};
    use crate::learn::tag::{Corpus, ReadOptions};
    use crate::numeric::log_sum_exp;
    use crate::run::Run;

    /// Scores from the definition: the sentence between separators, with the tables of the joint model.
    #[test]
    fn probabilities_are_those_of_the_joint_model_given_the_words() {
        let text = "the_D dog_N barks_V\na_D dog_N\ndogs_N bark_V\nbark_V\n";
        let corpus = Corpus::parse(text.into(), "x", &ReadOptions::default()).unwrap();
        let run = Run::default().with_threads(1);
        for (context, window) in [(1, 1), (1, 3), (2, 1), (2, 3), (1, 5)] {
            let how = Training::default().context(context).window(window).l2(0.05).iterations(15);
            let joint = train(&corpus, None, &how, None, &run, &mut |_| Ok(true)).unwrap();
            let (field, lexicon) = (joint.field().unwrap(), joint.lexicon());
            let tagger = joint.given_words().unwrap();
            let inputs = tagger.inputs(&corpus).unwrap();
            let best = tagger.best(&inputs, 1000, false, &run).unwrap();
            let marginals = tagger.marginals(&inputs, false, &run).unwrap();
            let offsets = super::super::offsets(window);
            for (number, sentence) in corpus.sentences().enumerate() {
                let (n, gap, states) = (sentence.len() as i64, 9, field.tags());
                let word = |i: i64| {
                    if (0..n).contains(&i) { lexicon.number(sentence.word(i as usize)).unwrap() } else { 0 }
                };
                let paths = 3usize.pow(n as u32);
                let path = |code: usize| (0..n as u32).map(|i| code / 3usize.pow(i) % 3).collect::<Vec<_>>();
                // Relative to the scores of the separators alone, which are the same for all paths.
                let score = |tags: &[usize]| {
                    let tag = |i: i64| if (0..n).contains(&i) { tags[i as usize] } else { states - 1 };
                    let mut sum = 0.0;
                    for i in -gap..n + gap {
                        for (k, pairs) in field.pairs().iter().enumerate() {
                            let next = i + k as i64 + 1;
                            if (0..n).contains(&i) || (0..n).contains(&next) {
                                sum += pairs[tag(i) * states + tag(next)];
                            }
                        }
                        for (m, table) in offsets.iter().zip(field.emissions()) {
                            if (0..n).contains(&i) {
                                sum += table[word(i + i64::from(*m)) as usize * states + tag(i)];
                            }
                        }
                    }
                    sum
                };
                let scores: Vec<f64> = (0..paths).map(|code| score(&path(code))).collect();
                let log_z = log_sum_exp(&scores);
                assert_eq!(best[number].len(), paths);
                for found in &best[number] {
                    let tags: Vec<usize> = found.tags.iter().map(|&tag| usize::from(tag)).collect();
                    let expected = score(&tags) - log_z;
                    assert!(
                        (found.log_probability - expected).abs() < 1e-9,
                        "{context} {window}: {expected}"
                    );
                }
                let most: Vec<u32> = best[number][0].tags.iter().map(|&tag| u32::from(tag)).collect();
                assert_eq!(joint.tag(&corpus, &run).unwrap()[number], most);
                for (i, row) in marginals[number].chunks_exact(3).enumerate() {
                    for (tag, p) in row.iter().enumerate() {
                        let own = (0..paths).filter(|&code| path(code)[i] == tag);
                        let sum: f64 = own.map(|code| (scores[code] - log_z).exp()).sum();
                        assert!((p - sum).abs() < 1e-9, "{context} {window}: {p} {sum}");
                    }
                }
            }
        }
    }
}
