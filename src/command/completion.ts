import { script } from '@bomb.sh/tab'
import { Argument } from '@commander-js/extra-typings'
import { defineCommand } from './subcommand.ts'

export const completion = defineCommand({
  name: 'completion',
  summary: 'print a script for your shell that completes what you type',
  description:
    'Prints a script for your shell. Once it has read it, the Tab key completes subcommands, options and values of ' +
    'sluice, which must be on your PATH.',
  examples: [
    { shows: 'for this bash; in ~/.bashrc for all', line: 'completion bash > ~/.sluice.bash && source ~/.sluice.bash' },
    { shows: 'for zsh, where fpath has that directory', line: 'completion zsh > ~/.zsh/completions/_sluice' },
    { shows: 'for fish', line: 'completion fish > ~/.config/fish/completions/sluice.fish' },
  ],
  declare: (command) => command.addArgument(new Argument('<shell>').choices(['bash', 'zsh', 'fish'] as const)),
  async run(_context, _options, shell) {
    script(shell, 'sluice', 'sluice')
    return 'done'
  },
})
