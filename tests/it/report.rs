//! The report of a night: its figures, its formats, and what it says of histories that are damaged.

mod any;
mod damage;
mod formats;
pub mod night;
pub mod script;
