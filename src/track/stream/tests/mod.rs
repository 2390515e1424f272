//! The stream on bytes that are written here.
