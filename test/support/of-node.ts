/** What a process needs of the environment to start Node, and without compiling each module anew. */
export function ofNode(): Record<string, string | undefined> {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  return { PATH, NODE_COMPILE_CACHE }
}
