//! A hidden Markov model as a model of any kind: `zhat info`, files, and queries about the states given observations.

use super::emission::Emissions;
use super::model::Hmm;
use super::read::{ReadOptions, parse};
use crate::error::Result;
use crate::model::{AnyModel, Input, Kind, Model, Reader, Summary, equal};
use crate::run::Run;
use crate::tensor::{Tensor, TensorMap};

/// The kind `hmm`.
pub const KIND: Kind = Kind::new("hmm");

/// The reader of model files of this kind.
pub(crate) const READER: Reader = Reader { kind: KIND, read };

fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(super::file::model_of(tensors, "")?.into())
}

impl AnyModel for Hmm {
    fn kind(&self) -> Kind {
        KIND
    }

    fn summary(&self) -> Summary {
        let (states, part) = (self.states(), self.emissions.part());
        let details = match &self.emissions {
            Emissions::Categorical(own) => format!("categorical, {} symbols", own.symbols),
            Emissions::Gaussian(own) => {
                format!("gaussian, {} columns, {} covariances", own.columns, own.form.name())
            }
            Emissions::Poisson(own) => format!("poisson, {} columns", own.columns),
            Emissions::Mixture(own) => format!(
                "mixture, {} normal components per state, {} columns, {} covariances",
                own.components,
                own.normals.columns,
                own.normals.form.name()
            ),
        };
        let zeros = self.transitions.iter().filter(|p| **p == 0.0).count();
        let mut summary = Summary::default()
            .figure("states", states)
            .figure("emissions", self.emissions.name())
            .figure("columns", part.columns())
            .figure("parameters", self.parameters())
            .figure("zero_transitions", zeros)
            .line("kind", KIND.name())
            .line("states", states.to_string())
            .line("emissions", details)
            .line("columns", self.layout.columns.join(", "))
            .line("parameters", self.parameters().to_string());
        if let Some(durations) = &self.durations {
            let (form, longest) = (durations.form().name(), durations.longest());
            summary = summary
                .figure("durations", form)
                .figure("max_duration", longest)
                .line("durations", format!("{form}, up to {longest} steps"));
        }
        if !self.ties.is_empty() {
            let list: Vec<String> = self.ties.iter().map(usize::to_string).collect();
            summary = summary
                .line("ties", format!("groups of states with the same emissions: {}", list.join(", ")));
        }
        if zeros > 0 {
            summary = summary.line("transitions", format!("{zeros} of {} are zero", states * states));
        }
        let unreachable = self.unreachable();
        if !unreachable.is_empty() {
            let list: Vec<String> = unreachable.iter().map(usize::to_string).collect();
            summary = summary
                .figure("unreachable", unreachable.len())
                .line("unreachable", format!("{} states: {}", unreachable.len(), list.join(", ")));
        }
        let sequence = self.layout.sequence.as_ref();
        let sequences = sequence.map_or(String::new(), |name| format!(", sequences by the column {name}"));
        summary.line("input", format!("observations, a table{sequences}: --input FILE"))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        super::file::tensors(self, "")
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        super::file::texts(self)
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        equal(self, other)
    }

    fn needs_input(&self) -> Option<&'static str> {
        Some("observations")
    }

    fn with_input(&self, input: &Input) -> Result<Model> {
        let options = ReadOptions { known: Some(self.layout.clone()), ..ReadOptions::default() };
        let read = parse(&input.text, &input.source_name, self.family(), &options)?;
        let run = Run::default();
        Ok(match self.durations {
            Some(_) => self.segments(&read.data, &run)?.into(),
            None => self.chain(&read.data, &run)?.into(),
        })
    }

    fn state_name(&self, _: usize, state: usize) -> String {
        self.layout.states.get(state).map_or_else(|| state.to_string(), Clone::clone)
    }
}
