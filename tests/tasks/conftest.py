"""The small data that several folders of tests share lie beside this file, which lets them be imported."""
