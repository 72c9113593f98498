package ctl

import "github.com/spf13/cobra"

// exitStatus is an exit status and what it means, for manuals.
type exitStatus struct {
	status int
	means  string
}

// exitStatuses are those that a command can end with, by what it speaks to.
func exitStatuses(c *cobra.Command) []exitStatus {
	list := []exitStatus{
		{exitOK, "success"},
		{exitFailure, "any other failure; not confirmed"},
		{exitUsage, "bad arguments, a setting that is missing or cannot be read, a confirmation that nobody can give"},
	}
	missing := exitStatus{exitMissing, "what was named does not exist"}
	switch {
	case !c.Runnable() || c.HasSubCommands():
		return []exitStatus{list[0], list[2]}
	case serverOf(c) == noServer && c.Name() != "validate":
		if c.Name() != "ls" && c.HasParent() && (c.Parent().Name() == "context" || c.Parent().Name() == "token") {
			return append(list, missing)
		}
		return list
	}
	return append(list, exitStatus{exitUnreachable, "nobody answers"}, exitStatus{exitRefused, "the server refuses"}, missing,
		exitStatus{exitInterrupted, "interrupted before the work was done"})
}
