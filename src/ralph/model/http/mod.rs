//! x
pub struct Api;
pub struct HttpClient;
pub struct Secret;
