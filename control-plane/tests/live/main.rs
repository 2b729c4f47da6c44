//! A system of real processes, from `zsr up` to `zsr down`.

mod deaths;
mod life;
mod system;
