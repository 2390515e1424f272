//! The report of a night: its figures, its formats, and what it says of histories that are damaged.

mod damage;
mod formats;
mod night;
mod script;
