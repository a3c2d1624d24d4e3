//! A trained tagger: best tags, k best, probabilities, with tags that are known and transitions that are
//! forbidden.

use super::conditional::Training;
use super::conditional::design::Design;
use super::conditional::query::Query;
use super::conditional::sums::Transitions;
use super::examples::{Names, Numbered, UNKNOWN};
use super::{Corpus, Dictionary, TagSet, Template};
use crate::error::{Error, Result};
use crate::numeric::parallel::prelude::*;
use crate::run::{Clock, Run};

/// A conditional tagger.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagger {
    tags: TagSet,
    names: Names,
    design: Design,
    template: Option<Template>,
    parameters: Vec<f64>,
    training: Training,
    /// The words of the training data, if it had words.
    words: Option<Dictionary>,
    /// Forbidden transitions.
    forbidden: Vec<[u16; 2]>,
}

/// Sentences with the attributes of a tagger; attributes without parameters are left out.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub(crate) numbered: Numbered,
    /// The number of tokens whose tag the training data do not have.
    unseen_tags: usize,
}

/// A sequence of tags and its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Tagging {
    /// The numbers of the tags.
    pub tags: Vec<u16>,
    /// ln p(tags | words).
    pub log_probability: f64,
}

/// A parameter of a tagger, for printing.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// The attribute, or the tags before, separated by spaces.
    pub feature: String,
    /// The tag.
    pub tag: String,
    /// The value.
    pub value: f64,
    /// Whether it is the weight of a transition.
    pub transition: bool,
}

impl Inputs {
    /// The number of sentences.
    pub fn len(&self) -> usize {
        self.numbered.sentences.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens.
    pub fn tokens(&self) -> usize {
        self.numbered.tokens()
    }

    /// The number of tokens whose tag is not one of the tagger's.
    pub fn unseen_tags(&self) -> usize {
        self.unseen_tags
    }

    /// The tags of a sentence, `None` where they are not known.
    ///
    /// # Panics
    /// If there is no such sentence.
    pub fn tags(&self, sentence: usize) -> Vec<Option<u16>> {
        let known = |&tag: &u16| (tag != UNKNOWN).then_some(tag);
        self.numbered.tags[self.numbered.sentence(sentence)].iter().map(known).collect()
    }

    /// Ends a sentence; one without tokens has no tags.
    pub fn end_sentence(&mut self) {
        self.numbered.end_sentence();
    }
}

impl Tagger {
    pub(crate) fn from_parts(
        tags: TagSet,
        names: Names,
        design: Design,
        template: Option<Template>,
        parameters: Vec<f64>,
        training: Training,
    ) -> Self {
        Tagger { tags, names, design, template, parameters, training, words: None, forbidden: Vec::new() }
    }

    pub(crate) fn with_words(self, words: Option<Dictionary>) -> Self {
        Tagger { words, ..self }
    }

    /// The words of the training data, if it had words.
    pub fn words(&self) -> Option<&Dictionary> {
        self.words.as_ref()
    }

    pub(crate) fn design(&self) -> &Design {
        &self.design
    }

    pub(crate) fn attribute_names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn set_parameters(&mut self, parameters: Vec<f64>, change: impl FnOnce(&mut Training)) {
        self.parameters = parameters;
        change(&mut self.training);
    }

    /// The tags.
    pub fn tags(&self) -> &TagSet {
        &self.tags
    }

    /// The names of tags.
    pub fn names(&self, tags: &[u16]) -> Vec<&str> {
        tags.iter().map(|&tag| self.tags.name(u32::from(tag))).collect()
    }

    /// The template of the attributes; `None` if they were given.
    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }

    /// How it was trained.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The parameters: of attributes, of pairs, of triples.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The number of attributes with parameters.
    pub fn attributes(&self) -> usize {
        self.design.attributes()
    }

    /// 1, or 2 if there are parameters of three tags.
    pub fn context(&self) -> usize {
        self.design.order
    }

    /// The number of bits of the hash that numbers the attributes; `None` if they are listed.
    pub fn hash_bits(&self) -> Option<u32> {
        match &self.names {
            Names::Hashed { slots } => Some(slots.len().trailing_zeros()),
            Names::Listed(_) => None,
        }
    }

    /// Forbids transitions from one tag to the next.
    ///
    /// # Errors
    /// If a tag is not one of the tagger's.
    pub fn forbid<S: AsRef<str>>(&mut self, transitions: &[(S, S)]) -> Result<()> {
        let number = |tag: &S| {
            let known = self.tags.number(tag.as_ref());
            known.ok_or_else(|| {
                let message = format!("`{}` is not a tag of the tagger", tag.as_ref());
                Error::argument("forbid", message)
            })
        };
        let mut all = Vec::new();
        for (a, b) in transitions {
            all.push([number(a)? as u16, number(b)? as u16]);
        }
        self.forbidden = all;
        Ok(())
    }

    /// The largest parameters by absolute value, largest first.
    pub fn top(&self, count: usize) -> Vec<Weight> {
        let mut order: Vec<usize> =
            (0..self.parameters.len()).filter(|&k| self.parameters[k] != 0.0).collect();
        order.sort_by(|&a, &b| self.parameters[b].abs().total_cmp(&self.parameters[a].abs()).then(a.cmp(&b)));
        order.truncate(count);
        order.into_iter().map(|k| self.weight(k)).collect()
    }

    fn weight(&self, k: usize) -> Weight {
        let (states, pairs) = (self.design.state_tags.len(), self.design.pairs.len());
        let name = |tag: u16| self.tags.name(u32::from(tag)).to_owned();
        let (feature, tag) = if k < states {
            let attribute = self.design.starts.partition_point(|&start| start <= k) - 1;
            (self.names.name(attribute as u32), self.design.state_tags[k])
        } else if k < states + pairs {
            let [a, b] = self.design.pairs[k - states];
            (name(a), b)
        } else {
            let [a, b, c] = self.design.triples[k - states - pairs];
            (format!("{} {}", name(a), name(b)), c)
        };
        Weight { feature, tag: name(tag), value: self.parameters[k], transition: k >= states }
    }

    /// The number of parameters that are not 0.
    pub fn nonzero(&self) -> usize {
        self.parameters.iter().filter(|value| **value != 0.0).count()
    }

    /// The sentences of a corpus. Tags that training never saw count as unknown.
    ///
    /// # Errors
    /// If a token lacks a column of the template, or the tagger was trained without a template and the file has
    /// no attributes.
    pub fn inputs(&self, corpus: &Corpus) -> Result<Inputs> {
        let given = Template::parse("attributes")?;
        let template = self.template.as_ref().unwrap_or(&given);
        let mut inputs = Inputs::default();
        for sentence in corpus.sentences() {
            for token in 0..sentence.len() {
                template.each(&sentence, token, &mut |name, weight| self.push(&mut inputs, name, weight))?;
                self.end_token(&mut inputs, sentence.tag(token));
            }
            inputs.end_sentence();
        }
        Ok(self.sorted(inputs))
    }

    fn push(&self, inputs: &mut Inputs, name: &str, weight: f64) {
        if let Some(number) = self.names.find(name) {
            inputs.numbered.push(number, weight);
        }
    }

    fn end_token(&self, inputs: &mut Inputs, tag: Option<&str>) {
        let number = tag.and_then(|tag| self.tags.number(tag));
        inputs.unseen_tags += usize::from(tag.is_some() && number.is_none());
        inputs.numbered.end_token(number.map_or(UNKNOWN, |number| number as u16));
    }

    /// Adds a token to the last sentence of inputs: its attributes with weights, and its tag if it is known.
    ///
    /// # Errors
    /// If a weight is not finite.
    pub fn token<'a>(
        &self,
        inputs: &mut Inputs,
        attributes: impl IntoIterator<Item = (&'a str, f64)>,
        tag: Option<&str>,
    ) -> Result<()> {
        for (name, weight) in attributes {
            if !weight.is_finite() {
                let message = format!("the weight of `{name}` is {weight}, not a finite number");
                return Err(Error::argument("attributes", message));
            }
            self.push(inputs, name, weight);
        }
        self.end_token(inputs, tag);
        Ok(())
    }

    /// Puts the attributes of every token in the order that the tagger needs; call it after the last token.
    pub fn sorted(&self, mut inputs: Inputs) -> Inputs {
        inputs.numbered.renumber(Some, self.design.dense as u32);
        inputs
    }

    /// The parameters as tables.
    fn tables(&self) -> (Vec<f64>, Transitions) {
        let (n, width) = (self.design.tags, self.design.width());
        let mut table = vec![0.0; self.design.table()];
        self.design.expand(&self.parameters, &mut table);
        let mut pairs = self.design.pair_scores(&self.parameters);
        for &[a, b] in &self.forbidden {
            pairs[usize::from(a) * width + usize::from(b)] = f64::NEG_INFINITY;
        }
        (table, Transitions::new(n, width, pairs, self.design.triple_scores(&self.parameters)))
    }

    /// Calls `work` for every sentence, in parallel; the results are in order. Sentences without tokens have the
    /// default result.
    fn each<T: Send + Default>(
        &self,
        inputs: &Inputs,
        known: bool,
        run: &Run,
        phase: &'static str,
        work: impl Fn(&mut Query<'_>, &Clock<'_>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let clock = run.start(phase);
        let (table, transitions) = self.tables();
        let numbers: Vec<usize> = (0..inputs.len()).collect();
        let blocks: Vec<Result<Vec<T>>> = run.install(|| {
            let each = numbers.par_chunks(64).map(|block| {
                clock.check()?;
                let mut query = Query::new(&self.design, &inputs.numbered, &table, &transitions);
                let mut all = Vec::with_capacity(block.len());
                for &number in block {
                    if inputs.numbered.sentence(number).is_empty() {
                        all.push(T::default());
                        continue;
                    }
                    query.load(number, known);
                    let named = |error| match error {
                        Error::ImpossibleEvidence { .. } => {
                            let message = "its known tags need a forbidden transition";
                            Error::argument(format!("sentence {}", number + 1), message)
                        }
                        other => other,
                    };
                    all.push(work(&mut query, &clock).map_err(named)?);
                }
                Ok(all)
            });
            each.collect()
        });
        let mut all = Vec::with_capacity(inputs.len());
        for block in blocks {
            all.extend(block?);
        }
        Ok(all)
    }

    /// The most probable tags of every sentence.
    ///
    /// # Errors
    /// If forbidden transitions leave no sequence, or the budget is exceeded.
    pub fn predict(&self, inputs: &Inputs, run: &Run) -> Result<Vec<Vec<u16>>> {
        self.each(inputs, false, run, "tagging", |query, _| query.best())
    }

    /// The most probable tags of every sentence, given the tags that are known in the inputs.
    ///
    /// # Errors
    /// As [`Tagger::predict`].
    pub fn predict_known(&self, inputs: &Inputs, run: &Run) -> Result<Vec<Vec<u16>>> {
        self.each(inputs, true, run, "tagging", |query, _| query.best())
    }

    /// The probabilities of all tags of every token: per sentence, tokens × tags. With `known`, given the tags that
    /// are known in the inputs.
    ///
    /// # Errors
    /// As [`Tagger::predict`].
    pub fn marginals(&self, inputs: &Inputs, known: bool, run: &Run) -> Result<Vec<Vec<f64>>> {
        self.each(inputs, known, run, "marginals", |query, _| query.marginals())
    }

    /// The k most probable sequences of every sentence, best first; fewer if there are fewer. With `known`, given
    /// the tags that are known in the inputs; probabilities are conditional on them.
    ///
    /// # Errors
    /// As [`Tagger::predict`].
    pub fn best(&self, inputs: &Inputs, k: usize, known: bool, run: &Run) -> Result<Vec<Vec<Tagging>>> {
        self.each(inputs, known, run, "best tags", |query, clock| {
            clock.check()?;
            let log_z = query.log_partition()?;
            let all = query.lattice().best(k)?.into_iter();
            Ok(all.map(|(score, tags)| Tagging { tags, log_probability: score - log_z }).collect())
        })
    }

    /// ln p(tags | words) of every sentence; NaN if one of its tags is not known.
    ///
    /// # Errors
    /// As [`Tagger::predict`].
    pub fn log_probabilities(&self, inputs: &Inputs, run: &Run) -> Result<Vec<f64>> {
        self.each(inputs, false, run, "likelihood", |query, _| {
            let tags = query.tags();
            if tags.contains(&UNKNOWN) {
                return Ok(f64::NAN);
            }
            Ok(query.lattice().score(tags) - query.log_partition()?)
        })
    }

    /// −ln p(tags | words) per token, over the sentences whose tags are all known; `None` if there are none.
    ///
    /// # Errors
    /// As [`Tagger::predict`].
    pub fn log_loss(&self, inputs: &Inputs, run: &Run) -> Result<Option<f64>> {
        let (mut sum, mut tokens) = (0.0, 0);
        for (number, log) in self.log_probabilities(inputs, run)?.into_iter().enumerate() {
            if !log.is_nan() {
                sum -= log;
                tokens += inputs.numbered.sentence(number).len();
            }
        }
        Ok((tokens > 0).then(|| sum / tokens as f64))
    }

    /// The scores of one sentence as a lattice, for tests.
    #[cfg(test)]
    pub(crate) fn with_lattice<T>(
        &self,
        inputs: &Inputs,
        number: usize,
        work: impl FnOnce(&super::conditional::lattice::Lattice<'_>) -> T,
    ) -> T {
        let (table, transitions) = self.tables();
        let mut query = Query::new(&self.design, &inputs.numbered, &table, &transitions);
        query.load(number, false);
        work(&query.lattice())
    }
}
