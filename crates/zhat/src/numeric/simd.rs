//! Choice of the vector instructions of the kernels: made once at run time, overridden by `ZHAT_SIMD`.
//!
//! Every kernel of `numeric` is written once, as plain Rust without branches, and compiled for each
//! [`Level`]; the compiler vectorises it. AVX2 and AVX-512 round identically (both fuse multiply and add);
//! the portable level may differ from them in the last bit.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// An instruction set that the kernels are compiled for, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Instructions available on every CPU of this architecture.
    Portable,
    /// AVX2 with fused multiply-add: four doubles at a time.
    Avx2,
    /// AVX-512 (F, DQ, VL, BW): eight doubles at a time.
    Avx512,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// The name that `ZHAT_SIMD` takes.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// The strongest level that this CPU supports.
    pub fn detected() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw");
            if avx512 {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Portable
    }
}

fn requested() -> &'static Result<Level, String> {
    static REQUESTED: OnceLock<Result<Level, String>> = OnceLock::new();
    REQUESTED.get_or_init(|| {
        let detected = Level::detected();
        let Some(wanted) = std::env::var_os("ZHAT_SIMD").filter(|value| !value.is_empty()) else {
            return Ok(detected);
        };
        let wanted = wanted.to_string_lossy().into_owned();
        match Level::ALL.into_iter().find(|level| level.name() == wanted) {
            Some(level) if level <= detected => Ok(level),
            Some(_) => Err(format!("`{wanted}` is more than this CPU has; it has `{}`", detected.name())),
            None => Err(format!("unknown value `{wanted}`; known are portable, avx2 and avx512")),
        }
    })
}

/// The level in use: `ZHAT_SIMD` if this CPU supports it, otherwise the strongest supported level.
pub fn level() -> Level {
    requested().as_ref().copied().unwrap_or_else(|_| Level::detected())
}

/// Checks that `ZHAT_SIMD` names a level that this CPU supports; programs call it once at startup.
///
/// # Errors
/// If `ZHAT_SIMD` is unknown, or a level that this CPU does not support.
pub fn check() -> Result<Level> {
    requested().clone().map_err(|message| Error::argument("ZHAT_SIMD", message))
}

/// Compiles a kernel `fn name<const FMA: bool>(args) -> R` for every level and calls the one in use.
macro_rules! dispatched {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? => $kernel:ident) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { $kernel::<true>($($arg),*) }
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                fn avx512($($arg: $ty),*) $(-> $ret)? { $kernel::<true>($($arg),*) }
                match $crate::numeric::simd::level() {
                    // SAFETY: `level` is never above what `Level::detected` found on this CPU.
                    $crate::numeric::simd::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::numeric::simd::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::numeric::simd::Level::Portable => {}
                }
            }
            $kernel::<false>($($arg),*)
        }
    };
}

pub(crate) use dispatched;

/// Work that is compiled for every level by [`run`]. Its functions must be `#[inline(always)]`, otherwise
/// they keep the portable instructions.
pub(crate) trait Kernel {
    /// The result.
    type Output;
    /// The work; `FMA` says whether fused multiply-add is fast.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a kernel with the instructions of the level in use.
pub(crate) fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<K: Kernel>(kernel: K) -> K::Output {
            kernel.run::<true>()
        }
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
        fn avx512<K: Kernel>(kernel: K) -> K::Output {
            kernel.run::<true>()
        }
        match level() {
            // SAFETY: `level` is never above what `Level::detected` found on this CPU.
            Level::Avx512 => return unsafe { avx512(kernel) },
            // SAFETY: as above.
            Level::Avx2 => return unsafe { avx2(kernel) },
            Level::Portable => {}
        }
    }
    kernel.run::<false>()
}
