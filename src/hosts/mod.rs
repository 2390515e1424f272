//! The observers of other hosts, read as one: each row, run and pane of a host bears its name.

mod name;

pub(crate) use name::HostName;
