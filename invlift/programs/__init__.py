"""What is compiled: arguments, programs and how they are kept, double precision, derivatives."""
