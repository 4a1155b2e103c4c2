"""Rows: their statuses, queue, reasons, payloads and representation. It imports nothing else of sending."""
