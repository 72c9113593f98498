package main

import "context"

func (b *bench) p7(context.Context) error { return nil }
