"""What a good answer is, and the client that asks for one."""
