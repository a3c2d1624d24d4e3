//! Sampling of many structures, where each block has its own random stream.

use crate::numeric::parallel::prelude::*;

use super::SpaceModel;
use crate::error::Result;
use crate::query::{Law, Samples};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// Structures that share a stream. Large structures have a stream each, so that all threads have work.
const BLOCK: usize = 64;
const LARGE: usize = 1 << 12;

/// `count` structures, each drawn by the function `draw`.
pub(crate) fn samples(
    model: &SpaceModel,
    count: usize,
    law: Law,
    purpose: &str,
    run: &Run,
    clock: &Clock<'_>,
    draw: impl Fn(&mut Stream, &mut [u32]) -> Result<()> + Sync,
) -> Result<Samples> {
    let width = model.width();
    run.require_memory(clock.method(), 8.0 * count as f64 * width as f64)?;
    let block = if width > LARGE { 1 } else { BLOCK };
    let mut states = vec![0usize; count * width];
    let streams = Streams::new(run.seed(), purpose);
    if width > 0 {
        run.install(|| {
            states.par_chunks_mut(block * width).enumerate().try_for_each(|(index, chunk)| {
                let mut random = streams.block(index as u64);
                let mut structure = vec![0; width];
                for state in chunk.chunks_mut(width) {
                    clock.check()?;
                    draw(&mut random, &mut structure)?;
                    state.iter_mut().zip(&structure).for_each(|(to, from)| *to = *from as usize);
                }
                Ok(())
            })
        })?;
    }
    Ok(Samples::new(count, width, states, law))
}
