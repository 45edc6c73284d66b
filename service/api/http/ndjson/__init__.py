"""Newline-delimited JSON in both directions at the same time, in bounded memory.

    body ─ read ahead ─▶ spool ─ a few lines at a time ─▶ handler ─ one answer per line, in order ─▶ response

Many clients read no answer before they have sent the whole body. If the service read the body only as fast as the
client takes answers, both would wait for each other forever. So while the client does not read, the body goes to a
spool, above a size on disk. A client that reads gets answers as they are ready, and is slowed down if it sends too fast.

The number of open streams and the size of all spools together are limited. A client that neither sends nor reads for a
while, although it is its turn, gets 408, or after the first answers a problem as the last line.
"""
