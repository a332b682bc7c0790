"""The paper's claims: their page, and the programs that fill the tables of pages."""
