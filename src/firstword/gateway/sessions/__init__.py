"""WebSockets on which texts come in as they are written and their sound goes out."""
