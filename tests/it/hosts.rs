//! Several hosts, and the program that reads their observers over ssh.

// Each test uses a part of the world.
#![allow(dead_code)]

mod acts;
mod boards;
mod faces;
mod fifty;
mod flood;
mod hostile;
mod network;
mod printer;
mod refusals;
mod report;
mod rsyslog;
mod sshd;
mod world;
