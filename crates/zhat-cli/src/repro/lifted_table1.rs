//! Jernite, Rush & Sontag (2015), Table 1: nearest neighbours of a few words by their embeddings.

use std::collections::HashMap;

use zhat::Result;
use zhat::learn::language::{LanguageModel, Objective};

use super::lifted::{Treebank, by_pseudo_likelihood, learned};
use super::{Setting, header, line, short};
use crate::output;

/// A word, and its neighbours in the paper: lifted, pseudo-likelihood, word2vec.
type Row = (&'static str, [&'static str; 3]);

const PAPER: [Row; 5] = [
    ("company", ["firm, industry, group", "he, it, corp.", "holding, anacomp, uniroyal"]),
    ("red", ["conservative, freedom, black", "vietnamese, delegation, judge", "cross, tape, delicious"]),
    ("has", ["had, is, was", "have, had, n't", "had, been, have"]),
    ("dollar", ["currency, economy, government", "intergroup, market, uses", "currency, pound, stabilized"]),
    ("jack", ["richard, david, carl", "like, needed, first", "kemp, porter, timothy"]),
];
const NEAREST: usize = 3;
/// The file that `bench/word2vec` writes to the folder of the pictures: a word, a tab, its neighbours.
const WORD2VEC: &str = "lifted-table1-word2vec.tsv";

fn near(model: &LanguageModel, word: &str) -> String {
    match model.neighbours(word, NEAREST) {
        Ok(near) => near.into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(", "),
        Err(_) => "not in the vocabulary".into(),
    }
}

fn word2vec(setting: &Setting<'_>) -> HashMap<String, String> {
    let text = std::fs::read_to_string(setting.folder.join(WORD2VEC)).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(word, near)| (word.into(), near.into()))
        .collect()
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let treebank = Treebank::open(setting)?;
    let one = learned(&treebank, 1, Objective::Spectral(Vec::new()), setting)?;
    let two = learned(&treebank, 2, Objective::Spectral(vec![0.6, 0.4]), setting)?;
    let pseudo = by_pseudo_likelihood(&treebank, &treebank.sentences()?, setting)?;
    let others = word2vec(setting);
    output::print(&format!(
        "The three nearest words by cosine similarity of the embeddings. zhat: K = 1 ({} s), K = 2 with ρ = (0.6, 0.4) ({} s), pseudo-likelihood with K = 2 ({} s).\n\
         The paper: K = 2, star (45 min on a GPU); pseudo-likelihood (48 h, not converged).\n{}\n{}",
        short(one.seconds),
        short(two.seconds),
        short(pseudo.seconds),
        if others.is_empty() {
            "The column word2vec is empty; `python bench/word2vec/run.py FOLDER` computes it.\n"
        } else {
            ""
        },
        header(&[
            "word",
            "zhat, K = 1",
            "zhat, K = 2",
            "zhat, pseudo",
            "word2vec",
            "paper: lifted",
            "paper: pseudo",
            "paper: word2vec"
        ])
    ))?;
    for (word, [lifted, sgd, other]) in PAPER {
        let own = others.get(word).cloned().unwrap_or_default();
        output::print(&line(&[
            word.into(),
            near(&one.model, word),
            near(&two.model, word),
            near(&pseudo.model, word),
            own,
            lifted.into(),
            sgd.into(),
            other.into(),
        ]))?;
    }
    Ok(())
}
