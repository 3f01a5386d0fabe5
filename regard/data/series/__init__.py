"""Series: tables of numbers in time → regular rows, with what is known of them ahead."""
