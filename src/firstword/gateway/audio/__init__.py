"""Sound in and out: formats, encoding as it comes, tempo, decoding within limits, cutting at silences."""
