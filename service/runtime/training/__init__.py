"""The trainer: trains models from what datasets have stored, in a process of its own, and puts them into use."""
