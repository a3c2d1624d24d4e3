//! The step of a forward or backward pass: a few rows of messages times the transition matrix.
//!
//! The matrix is stored in strips of eight columns, so that it is read in the order of memory. A tile of up to eight
//! rows and sixteen columns of the result stays in registers. Written once, and compiled for every set of vector
//! instructions; the bits of a row do not depend on the other rows.

/// Columns per strip.
const STRIP: usize = 8;

/// A matrix in strips.
#[derive(Debug)]
pub(super) struct Strips {
    states: usize,
    numbers: Vec<f64>,
}

impl Strips {
    /// The strips of an N × N matrix, or of its transpose.
    pub fn new(matrix: &[f64], states: usize, transposed: bool) -> Self {
        let width = states.next_multiple_of(STRIP);
        let mut numbers = vec![0.0; states * width];
        for i in 0..states {
            for j in 0..states {
                let value = if transposed { matrix[j * states + i] } else { matrix[i * states + j] };
                numbers[(j / STRIP) * states * STRIP + i * STRIP + j % STRIP] = value;
            }
        }
        Strips { states, numbers }
    }

    /// out ← messages·M, both with rows of `width` numbers.
    #[inline(always)]
    pub fn multiply<const FMA: bool>(&self, messages: &[f64], out: &mut [f64], width: usize) {
        let rows = (messages.len() / width).min(out.len() / width);
        let mut first = 0;
        while first + 8 <= rows {
            self.rows::<FMA, 8>(&messages[first * width..], &mut out[first * width..], width);
            first += 8;
        }
        if first + 4 <= rows {
            self.rows::<FMA, 4>(&messages[first * width..], &mut out[first * width..], width);
            first += 4;
        }
        if first + 2 <= rows {
            self.rows::<FMA, 2>(&messages[first * width..], &mut out[first * width..], width);
            first += 2;
        }
        if first < rows {
            self.rows::<FMA, 1>(&messages[first * width..], &mut out[first * width..], width);
        }
    }

    #[inline(always)]
    fn rows<const FMA: bool, const R: usize>(&self, messages: &[f64], out: &mut [f64], width: usize) {
        let size = self.states * STRIP;
        let mut strips = self.numbers.chunks_exact(2 * size);
        let mut column = 0;
        for pair in &mut strips {
            let (one, two) = pair.split_at(size);
            self.tile::<FMA, R, 2>(messages, [one, two], out, width, column);
            column += 2 * STRIP;
        }
        if !strips.remainder().is_empty() {
            self.tile::<FMA, R, 1>(messages, [strips.remainder()], out, width, column);
        }
    }

    /// R rows and S strips.
    #[inline(always)]
    fn tile<const FMA: bool, const R: usize, const S: usize>(
        &self,
        messages: &[f64],
        strips: [&[f64]; S],
        out: &mut [f64],
        width: usize,
        column: usize,
    ) {
        let states = self.states;
        // Plain loops, not `array::from_fn`: unless that is inlined, the lengths of the slices are unknown in the loop
        // below, and its checks keep the compiler from using vectors. This alone does not suffice: inside the library
        // the loop was still compiled to scalar code when last profiled.
        let (mut rows, mut chunks): ([&[f64]; R], [&[[f64; STRIP]]; S]) = ([&[]; R], [&[]; S]);
        for (r, row) in rows.iter_mut().enumerate() {
            *row = &messages[r * width..][..states];
        }
        for (chunks, strip) in chunks.iter_mut().zip(strips) {
            *chunks = &strip.as_chunks().0[..states];
        }
        let mut sums = [[[0.0f64; STRIP]; S]; R];
        for k in 0..states {
            for r in 0..R {
                let x = rows[r][k];
                for s in 0..S {
                    for j in 0..STRIP {
                        let m = chunks[s][k][j];
                        sums[r][s][j] = if FMA { x.mul_add(m, sums[r][s][j]) } else { x * m + sums[r][s][j] };
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (s, sums) in sums.iter().enumerate() {
                out[r * width + column + s * STRIP..][..STRIP].copy_from_slice(sums);
            }
        }
    }
}
