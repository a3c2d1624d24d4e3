//! Jernite, Rush & Sontag (2015), Section 6: embeddings of different dimensions against full matrices.

use zhat::Result;
use zhat::learn::language::{InteractionForm, Objective};

use super::lifted::{Treebank, learned_as};
use super::{Setting, header, line, short};
use crate::output;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let treebank = Treebank::open(setting)?;
    output::print(&format!(
        "Certified log-likelihood of the validation text by the spectral bound, in nats per word; training stops when it no longer increases.\n\n{}",
        header(&["φ", "K", "validation", "steps", "seconds"])
    ))?;
    let rows = [
        ("D = 10", 1, InteractionForm::Products(10)),
        ("D = 30", 1, InteractionForm::Products(30)),
        ("D = 60", 1, InteractionForm::Products(60)),
        ("full matrix", 1, InteractionForm::Full),
        ("D = 30", 2, InteractionForm::Products(30)),
        ("D = 30, rotated", 2, InteractionForm::Rotated(30)),
    ];
    for (name, context, form) in rows {
        let found = learned_as(&treebank, context, form, Objective::Spectral(Vec::new()), setting)?;
        output::print(&line(&[
            name.into(),
            context.to_string(),
            format!("{:.4}", found.certified(setting)?),
            found.course.len().to_string(),
            short(found.seconds),
        ]))?;
    }
    Ok(())
}
