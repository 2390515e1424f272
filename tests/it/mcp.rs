//! `td-observe mcp` from outside: what official clients and clients of any kind get from it.

pub mod client;
mod official;
mod typing;
