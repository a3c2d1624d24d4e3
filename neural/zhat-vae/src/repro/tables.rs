//! Tables of results files as Markdown.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use super::picture::picture;
use super::results::{self, Found, Settings};
use super::{Curve, ROWS};

/// A number with some decimals; a dash if it is not known.
fn shown(x: f64, decimals: usize) -> String {
    if x.is_finite() { format!("{x:.decimals$}") } else { "–".to_owned() }
}

fn whole(count: Option<usize>) -> String {
    count.map_or_else(|| "–".to_owned(), |count| count.to_string())
}

/// Table 5. If a seed of a row occurs twice, the first result counts.
pub fn table5(all: &[Found]) -> String {
    let mut text = String::from(
        "| row | NLL | seeds | paper | inactive states | as trained | words/s | GiB | steps |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut notes = String::new();
    for row in &ROWS {
        let mut own: Vec<&Found> = Vec::new();
        for found in all.iter().filter(|found| found.row == row.name) {
            if own.iter().all(|earlier| earlier.seed != found.seed) {
                own.push(found);
            }
        }
        let Some(first) = own.first() else { continue };
        let count = own.len() as f64;
        let mean = |of: fn(&Found) -> f64| own.iter().map(|found| of(found)).sum::<f64>() / count;
        let nll = mean(|found| found.nll);
        // Standard error: of the samples of one run, or the spread of several.
        let (error, sign) = if own.len() > 1 {
            let squares: f64 = own.iter().map(|found| (found.nll - nll).powi(2)).sum();
            ((squares / (count - 1.0)).sqrt(), "sd")
        } else {
            (first.sampling_error, "se")
        };
        let paper = row.paper.map_or_else(|| "–".to_owned(), |(mean, sd)| format!("{mean:.2} ± {sd:.2}"));
        text.push_str(&format!(
            "| {} | {} ± {} ({sign}) | {} | {paper} | {:.0} of {} | {} | {} | {}{} | {:.0} |\n",
            row.name,
            shown(nll, 2),
            shown(error, 2),
            own.len(),
            mean(|found| found.inactive as f64),
            first.states,
            shown(mean(|found| found.inactive_trained.map_or(f64::NAN, |count| count as f64)), 0),
            shown(mean(|found| found.words_per_second), 0),
            shown(mean(|found| found.gib), 1),
            if own.iter().any(|found| found.whole_device) { " (GPU)" } else { "" },
            mean(|found| found.steps as f64),
        ));
        let floored: u64 = own.iter().filter_map(|found| found.floored).sum();
        if floored > 0 {
            notes.push_str(&format!(
                "\n{}: {floored} sums over states were below {:e} of the largest possible one in training, and were \
                 set to it.\n",
                row.name,
                zhat_burn::on_device::FLOOR
            ));
        }
    }
    if all.iter().any(|found| found.whole_device) {
        notes.push_str(
            "\n(GPU): memory in use on the whole GPU, by all processes; the driver does not list this one.\n",
        );
    }
    text + &notes
}

/// The first lines of the table of Figure 2.
pub(super) const FIGURE: &str = "| K₁ | K₂ | inactive states | as trained | NLL |\n|---|---|---|---|---|";

/// A line of the table of Figure 2.
pub(super) fn line(curve: &Curve) -> String {
    let found = &curve.found;
    format!(
        "| {} | {} | {} of {} | {} | {} |",
        curve.top,
        found.sampled,
        found.inactive,
        found.states,
        whole(found.inactive_trained),
        shown(found.nll, 2)
    )
}

/// The picture of Figure 2 in a folder.
pub(super) fn draw(curves: &[Curve], folder: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for curve in curves {
        let name = format!("K1 = {}, K2 = {}", curve.top, curve.found.sampled);
        lines.push((name.clone(), curve.counts.clone()));
        if curve.found.sampled == 0 && !curve.counts_trained.is_empty() {
            lines.push((name + ", as trained", curve.counts_trained.clone()));
        }
    }
    let path = folder.join("rdp-fig2.svg");
    std::fs::write(&path, picture(&lines)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nThe picture is in {}.", path.display());
    Ok(())
}

/// Results with equal settings together, in the order of the file.
fn groups<T: DeserializeOwned>(
    path: &Path,
    name: &str,
    settings: impl Fn(&T) -> &Settings,
) -> Result<Vec<Vec<T>>> {
    if !path.exists() {
        bail!("{}: there is no such file", path.display());
    }
    let mut groups: Vec<Vec<T>> = Vec::new();
    for found in results::read::<T>(path)? {
        match groups.iter_mut().find(|group| settings(&group[0]) == settings(&found)) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    if groups.is_empty() {
        bail!("{}: there are no results of {name} in it", path.display());
    }
    Ok(groups)
}

/// Settings, machines and days of results with equal settings.
fn origin<'a>(all: impl Iterator<Item = &'a Found>) -> String {
    let (mut machines, mut days, mut settings) = (Vec::new(), Vec::new(), String::new());
    for found in all {
        if !machines.contains(&found.machine.as_str()) {
            machines.push(found.machine.as_str());
        }
        days.push(found.date.as_str());
        settings = found.settings.to_string();
    }
    days.sort_unstable();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (first, _) => (*first.unwrap_or(&"")).to_owned(),
    };
    format!("{settings}; {}; {days}", machines.join(" and "))
}

/// Prints the tables of a results file, one for each settings, and draws the picture of the last of them if it is that of
/// Figure 2.
///
/// # Errors
/// If the file is missing or has no results of this name, or the picture cannot be written.
pub fn print(name: &str, path: &Path, folder: &Path) -> Result<()> {
    if name == "rdp-table5" {
        for group in groups::<Found>(path, name, |found| &found.settings)? {
            println!("{}\n\n{}", origin(group.iter()), table5(&group));
        }
        return Ok(());
    }
    let mut groups = groups::<Curve>(path, name, |curve| &curve.found.settings)?;
    for group in &mut groups {
        group.sort_by_key(|curve| curve.found.sampled);
        group.dedup_by_key(|curve| curve.found.sampled);
        println!("{}\n\n{FIGURE}", origin(group.iter().map(|curve| &curve.found)));
        group.iter().for_each(|curve| println!("{}", line(curve)));
    }
    match groups.last() {
        Some(last) => draw(last, folder),
        None => Ok(()),
    }
}
