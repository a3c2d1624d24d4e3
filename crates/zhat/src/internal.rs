//! Items shared with the command-line program and the Python module, which are built from the same version.
//! Nothing here is part of the public interface; it may change in any release.

pub mod decimal {
    //! Decimal formatting of numbers.
    pub use crate::decimal::*;
}

pub mod numeric {
    //! Numerical kernels.
    pub use crate::numeric::{
        Matrix, exp_in_place, log_sum_exp, map_large_blocks, max, multiply, rounding_allowance, simd,
    };
}

pub mod optimize {
    //! Optimisers.
    pub use crate::optimize::*;
}

pub mod platform {
    //! Memory and processors.
    pub use crate::platform::*;
}

pub mod suggest {
    //! Suggestions for misspelt names.
    pub use crate::suggest::*;
}

pub mod units {
    //! Sizes and durations as text.
    pub use crate::units::*;
}

pub mod io {
    //! Atomic file output.
    pub use crate::io::compression::compressed;
    pub use crate::io::whole::{Abandoned, abandon_writes, write_atomically};
}

#[cfg(feature = "learn")]
pub mod training {
    //! Checkpoint files during training.
    pub use crate::learn::kept::{Kept, require_step};
}

pub mod report {
    //! Parts of reports.
    pub use crate::report::json::number as json_number;
    pub use crate::report::table::{facts, table};
    pub use crate::report::words::{guarantee, provenance};
}

pub mod quadrature {
    //! Polynomials, index tuples and theorems of stochastic quadrature.
    pub use crate::method::quadrature::mixed::integral;
    pub use crate::method::quadrature::polynomial::{Polynomial, least_degree};
    pub use crate::method::quadrature::theorems::{
        Needed, Norms, corrected, error_of, log_error, samples_as_printed,
    };
    pub use crate::method::quadrature::tuples::{Cliques, Tuples};
}

pub mod space {
    //! Sample sizes, schedules and mixing times for combinatorial spaces.
    pub use crate::method::space::estimate::schedule::{
        Published, chernoff_interval, median_runs, poisson_interval, telescoped_levels,
    };
    pub use crate::method::space::mixing::{flip_congestion, flip_steps, single_flip_congestion};
    pub use crate::method::space::perfect::{
        direction_samples, gradient_samples, marginal_samples, meta_steps,
    };
    pub use crate::model::space::assignment::best_assignment;
}
