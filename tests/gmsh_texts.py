"""The unit square cut into four triangles by its centre, as gmsh writes it."""

# The curve group "body" shares its name with a surface group, curve 10 has
# no name, and curve 8, the fault, is inside the body.
GMSH_22 = """$MeshFormat
2.2 0 8
$EndMeshFormat
$PhysicalNames
4
1 7 "left side"
1 9 "body"
2 1 "body"
1 8 "fault"
$EndPhysicalNames
$Nodes
5
1 0 0 0
2 1 0 0
3 1 1 0
4 0 1 0
5 0.5 0.5 0
$EndNodes
$Elements
9
1 15 2 0 1 1
2 1 2 7 4 4 1
3 1 2 9 1 1 2
4 1 2 8 5 1 5
5 1 2 10 2 2 3
6 2 2 1 1 1 2 5
7 2 2 1 1 2 3 5
8 2 2 2 2 3 4 5
9 2 2 2 2 4 1 5
$EndElements
"""
GMSH_41 = """$MeshFormat
4.1 0 8
$EndMeshFormat
$PhysicalNames
4
1 7 "left side"
1 9 "body"
2 1 "body"
1 8 "fault"
$EndPhysicalNames
$Entities
0 4 2 0
1 0 0 0 1 0 0 1 9 0
2 1 0 0 1 1 0 1 10 0
4 0 0 0 0 1 0 1 -7 0
5 0 0 0 1 1 0 1 8 0
1 0 0 0 1 1 0 1 1 0
2 0 0 0 1 1 0 1 2 0
$EndEntities
$Nodes
1 5 1 5
2 1 0 5
1
2
3
4
5
0 0 0
1 0 0
1 1 0
0 1 0
0.5 0.5 0
$EndNodes
$Elements
6 8 1 8
1 4 1 1
1 4 1
1 1 1 1
2 1 2
1 5 1 1
3 1 5
1 2 1 1
4 2 3
2 1 2 2
5 1 2 5
6 2 3 5
2 2 2 2
7 3 4 5
8 4 1 5
$EndElements
"""
