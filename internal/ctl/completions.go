package ctl

import (
	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish"}

// completionsCommand stands in for cobra's own, which has the shells as commands and another name.
func (a *app) completionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completions SHELL", Aliases: []string{"completion"}, Short: "Write a script that makes a shell complete felixctl's commands and names",
		Long: `Write a completion script for bash, zsh or fish. Names of streams, topics, groups, nodes and so on are asked of the server that the
settings lead to, as far as it answers.`,
		Example: "  source <(felixctl completions bash)\n  felixctl completions fish > ~/.config/fish/completions/felixctl.fish",
		Args:    exactly(1), ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.p.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.p.Out)
			case "fish":
				return root.GenFishCompletion(a.p.Out, true)
			default:
				return usageErrorf("%q is none of bash, zsh, fish", args[0])
			}
		},
	}
}
